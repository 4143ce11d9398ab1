package loop_test

import (
	"fmt"
	"os"
	goruntime "runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// hostileMemory bounds the growth of an agent's memory by false answers of a runtime, while the agent still holds them: a
// single text of the runtime has at most 16 MiB.
const hostileMemory = 128 << 20

// TestHostileRuntime has a whole agent live with a runtime whose answers are changed at random, in
// any field: no panic, no wait without end, bounded memory, and once the runtime answers as it should
// the pods run. PODSYNC_HOSTILE_RUNTIME=N has it live N lives.
func TestHostileRuntime(t *testing.T) {
	lives := 3
	if testing.Short() {
		lives = 2
	}
	if n, err := strconv.Atoi(os.Getenv("PODSYNC_HOSTILE_RUNTIME")); err == nil {
		lives = n
	}
	for seed := range uint64(lives) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { hostileLife(t, seed) }) })
	}
}

func hostileLife(t *testing.T, seed uint64) {
	model := []critest.Model{critest.Containerd2, critest.Containerd16, critest.CRIO}[seed/3%3]
	n := newNode(t, critest.Config{Like: model, JournalLimit: 100}) // or else the journal is most of the heap
	rate := []float64{0.002, 0.02, 0.2}[seed%3]
	h := testnode.NewHostile(seed, rate)
	conn, err := n.Runtime.Dial(grpc.WithChainUnaryInterceptor(cri.Timeouts{}.Interceptor(), h.Unary), grpc.WithChainStreamInterceptor(h.Stream))
	n.Must(err)
	n.Cleanup(func() { conn.Close() })
	src := source.NewStaticPush("file")
	pods := []*v1.Pod{pod("file", "a", "a1", "sleep 100000"), pod("file", "b", "b1", "sleep 60"), withInit(pod("file", "c", "c1", "sleep 100000")), once(pod("file", "job", "j1", "sleep 5"))}
	n.Must(src.Set(pods...))
	before := heap()
	a := n.start([]source.Source{src}, func(c *nodeagent.Config) {
		c.Client = cri.NewClient(conn)
		c.NoImageGC = false
	})
	time.Sleep(3 * time.Minute)
	n.Must(src.Set(pods[1:]...)) // one ends while the runtime lies
	time.Sleep(3 * time.Minute)
	if after := heap(); after > before+hostileMemory {
		t.Errorf("the heap has grown from %d MiB to %d MiB", before>>20, after>>20)
	}
	h.SetRate(0)
	time.Sleep(15 * time.Minute)
	for _, p := range pods[1:3] {
		if got := a.sink.of(p.UID); got.Phase != v1.PodRunning {
			t.Errorf("pod %s is %s %s %.200s %.400v", p.Name, got.Phase, got.Reason, got.Message, got.ContainerStatuses)
		}
	}
	a.stop()
}

func heap() uint64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

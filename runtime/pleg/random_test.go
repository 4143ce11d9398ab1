package pleg

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// After any sequence of failures, the cache and the last reports are equal to the result of a new
// reader.
func TestP3_AllEndsWell(t *testing.T) {
	for seed := range uint64(seeds) {
		model := critest.Containerd2
		if seed%3 == 0 {
			model = critest.Containerd16
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { endsWell(t, rand.New(rand.NewPCG(seed, 1)), model) })
		})
	}
}

func endsWell(t *testing.T, r *rand.Rand, model critest.Model) {
	n := &node{testnode.New(t, critest.Config{Like: model, Latency: map[critest.Method]time.Duration{
		critest.ListContainers: 2 * time.Millisecond, critest.ContainerStatus: 5 * time.Millisecond,
	}}).Dial(cri.Config{})}
	w := n.run()
	stop, injected := make(chan struct{}), []faults.Injected{}
	events := n.afflict(r, &injected)
	go askAround(t, w, stop)
	last := map[types.UID]string{}
	for range 150 {
		n.disturb(r)
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
		for _, h := range w.heard() {
			last[h.uid] = states(h.status)
		}
	}
	for _, f := range injected {
		f.Remove()
	}
	for _, e := range events {
		e.Remove()
	}
	time.Sleep(time.Minute)
	close(stop)
	time.Sleep(w.config.EventRelist + time.Minute)
	pods, err := n.Reader().List(t.Context())
	n.Must(err)
	there := map[types.UID]bool{}
	for _, p := range pods {
		there[p.UID] = true
		want, err := n.Reader().Inspect(t.Context(), p, nil)
		n.Must(err)
		if got, err := w.cache.Get(p.UID); err != nil || !got.Equal(want) {
			t.Errorf("%s is %q in the cache (%v), and %q in truth", p.UID, states(got), err, states(want))
		}
	}
	if got := len(w.cache.UIDs()); got != len(pods) {
		t.Errorf("%d pods in the cache, %d in truth", got, len(pods))
	}
	for uid := range last {
		if s, _ := w.cache.Get(uid); !there[uid] && s != nil {
			t.Errorf("%s is gone in truth, and %q in the cache", uid, states(s))
		}
	}
	w.Watcher.mu.Lock()
	defer w.Watcher.mu.Unlock()
	for uid, p := range w.pods {
		if !p.reported.Equal(p.latest) || p.due() || p.wakeup != nil || !there[uid] {
			t.Errorf("%s: reported %q, newest %q, due %v, at work %v", uid, states(p.reported), states(p.latest), p.due(), p.wakeup != nil)
		}
	}
}

// askAround requests new statuses, and checks that they are new.
func askAround(t *testing.T, w *watch, stop chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(37 * time.Millisecond):
		}
		since := time.Now()
		uid := types.UID(fmt.Sprintf("u%d", i%6))
		if s, err := w.GetNewerThan(t.Context(), uid, since); err == nil && s.ObservedAt.Before(since) {
			t.Errorf("GetNewerThan returned a status of %v before it was asked for", since.Sub(s.ObservedAt))
		}
	}
}

// afflict injects faults into calls and events.
func (n *node) afflict(r *rand.Rand, injected *[]faults.Injected) (events []faults.Injected) {
	for _, m := range []critest.Method{critest.ListContainers, critest.ListPodSandbox, critest.ContainerStatus, critest.PodSandboxStatus} {
		salt := r.Uint32()
		chance := func(c critest.Call) bool { return (uint32(c.N)*2654435761^salt)>>8%12 == 0 }
		code := []codes.Code{codes.Internal, codes.Unavailable, codes.DeadlineExceeded}[r.IntN(3)]
		*injected = append(*injected,
			n.Fault(faults.Fault{Match: faults.Match{Method: m, If: chance}, Times: faults.Always, Err: status.Error(code, "random")}),
			n.Fault(faults.Fault{Match: faults.Match{Method: m, If: chance}, Times: faults.Always, Delay: 300 * time.Millisecond}),
		)
	}
	for i := range 200 {
		f := faults.Event{Action: faults.Action(r.IntN(6)), Skip: i / 20}
		if f.Action == faults.Delay {
			f.Delay = time.Duration(1+r.IntN(2000)) * time.Millisecond
		}
		e, err := n.InjectEvent(f)
		n.Must(err)
		events = append(events, e)
	}
	return events
}

// disturb changes something in the runtime.
func (n *node) disturb(r *rand.Rand) {
	uid := fmt.Sprintf("u%d", r.IntN(6))
	switch {
	case r.IntN(20) == 0:
		n.Must(n.Restart(faults.Restart{Down: time.Duration(r.IntN(3000)) * time.Millisecond}))
		time.Sleep(3 * time.Second)
	case r.IntN(10) == 0:
		n.DisconnectEvents(nil)
	case n.SandboxIDs[uid] == "":
		n.RunSandbox(uid)
	case r.IntN(4) == 0:
		_ = n.Remove(n.SandboxIDs[uid]) // it may have been removed already
		delete(n.SandboxIDs, uid)
	default:
		n.Start(uid, "app", uint32(r.IntN(1<<30)), []string{"exit 3", "sleep 1", "sleep infinity"}[r.IntN(3)])
	}
}

// BenchmarkEvent measures the time from the end of a container's process, in a node of 1,000 pods, to the call of Changed,
// including the in-memory runtime and gRPC.
func BenchmarkEvent(b *testing.B) {
	n := &node{testnode.New(b, critest.Config{JournalLimit: 10}).Dial(cri.Config{})}
	n.pods("u", 1000)
	n.RunSandbox("busy")
	exited := make(chan struct{}, 1)
	w := n.run(func(c *Config) {
		c.Changed = func(_ types.UID, s *runtime.PodStatus) {
			if c := s.Latest("app"); c != nil && c.State == runtime.ContainerExited {
				exited <- struct{}{}
			}
		}
	})
	for !w.Health().Streaming {
		time.Sleep(10 * time.Millisecond)
	}
	attempt := uint32(0)
	for b.Loop() {
		b.StopTimer()
		id := n.Start("busy", "app", attempt, "sleep infinity")
		attempt++
		must.Get(w.GetNewerThan(b.Context(), "busy", time.Now()))(b)
		b.StartTimer()
		n.Exit(id, 1)
		<-exited
		b.StopTimer()
		must.Get(n.Client.RemoveContainer(b.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: id}))(b)
		b.StartTimer()
	}
}

// BenchmarkList measures a list of 1,000 pods in which nothing has changed, without the runtime's part.
func BenchmarkList(b *testing.B) {
	n := &node{testnode.New(b, critest.Config{}).Dial(cri.Config{})}
	n.pods("u", 1000)
	w := n.run(listsOnly)
	for {
		if _, err := w.Available(); err == nil && len(w.cache.UIDs()) == 1000 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := w.stop(); err == nil {
		b.Fatal("Run returned nil")
	}
	pods, err := n.Reader().List(b.Context())
	n.Must(err)
	for b.Loop() {
		w.Watcher.mu.Lock()
		w.compare(pods)
		w.Watcher.mu.Unlock()
	}
}

package critest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// Processes returns a process even if the runtime has lost it or reports another state.
func TestProcesses(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, short := n.runs("u", "sh", "-c", "sleep 3; exit 4")
		time.Sleep(time.Second)
		_, lost := n.runs("v", "serve")
		time.Sleep(4 * time.Second)
		n.ok(n.Restart(faults.Restart{Sandboxes: faults.EffectRemoved}))
		time.Sleep(time.Second)
		all := n.Processes()
		if len(all) != 2 || all[0].ContainerID != short || all[1].ContainerID != lost {
			t.Fatalf("%+v, want the containers %v and %v", all, short, lost)
		}
		if p := all[0]; p.PodUID != "u" || p.Ended.Sub(p.Started) != 3*time.Second || p.ExitCode != 4 {
			t.Errorf("%+v, want PodUID %q and %v and ExitCode 4", p, "u", 3*time.Second)
		}
		if p := all[1]; p.Ended.Sub(p.Started) != 4*time.Second {
			t.Errorf("%+v, want %v", p, 4*time.Second)
		}
		if a, b := all[0], all[1]; !a.Overlaps(b) || !b.Overlaps(a) {
			t.Errorf("they ran at one time: %+v", all)
		}
		if a, b := (Process{Ended: all[0].Ended}), (Process{Started: all[0].Ended}); a.Overlaps(b) || b.Overlaps(a) {
			t.Error("one began in the instant in which the other ended")
		}
	})
}

// A server is process 1 of its namespace, which another process there cannot kill.
func TestServerIsNotKilledFromInside(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		config := podConfig("u")
		resp, err := n.rt.CreateContainer(n.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: n.newSandbox("u"), SandboxConfig: config, Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "app"}, Command: []string{"serve"},
			Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
			}},
		}})
		n.ok(err)
		id := resp.GetContainerId()
		n.ok(n.startIt(id))
		if _, err := n.rt.ExecSync(n.Context(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: script("kill -9 1")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p := n.Processes()[0]; !p.Ended.IsZero() {
			t.Errorf("the server has ended: %+v", p)
		}
	})
}

// A running server has no goroutine, and a signal ends it.
func TestServersNeedNoGoroutine(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		n.runs("first", "serve")
		synctest.Wait()
		before := runtime.NumGoroutine()
		var id string
		for i := range 20 {
			_, id = n.runs(fmt.Sprint(i), "serve")
		}
		synctest.Wait()
		if more := runtime.NumGoroutine() - before; more > 10 { // other tests may have goroutines
			t.Errorf("20 servers have %d goroutines", more)
		}
		n.ok(n.stopIt(n.Context(), id, 30))
		all := n.Processes()
		if p := all[len(all)-1]; p.ExitCode != 128+15 || p.Ended.IsZero() {
			t.Errorf("the stopped server is %+v, want exit code %d", p, 128+15)
		}
	})
}

// Ended processes count towards the limit first; running ones are always listed.
func TestProcessesHaveALimit(t *testing.T) {
	onBubble(t, Config{JournalLimit: 2}, func(n *node) {
		for _, uid := range []string{"r", "s", "t"} {
			n.runs(uid, "serve")
		}
		for _, uid := range []string{"u", "v", "w"} {
			n.runs(uid, "true")
			synctest.Wait()
		}
		var uids string
		for _, p := range n.Processes() {
			uids += p.PodUID
		}
		if uids != "rstw" {
			t.Errorf("processes of the pods %q, want %q", uids, "rstw")
		}
	})
}

// The clock is set back: recorded times are in the future, and durations do not change.
func TestStepClock(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		begin := time.Now()
		_, id := n.runs("u", "sleep", "5")
		time.Sleep(time.Second)
		n.StepClock(-time.Hour)
		time.Sleep(10 * time.Second)
		st, err := n.rt.ContainerStatus(n.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
		n.ok(err)
		started, finished := time.Unix(0, st.GetStatus().GetStartedAt()), time.Unix(0, st.GetStatus().GetFinishedAt())
		if started.Sub(begin) != time.Hour || finished.Sub(begin) != 5*time.Second {
			t.Errorf("it ran from %v to %v", started, finished)
		}
		if p := n.Processes()[0]; !p.Started.Equal(begin) || p.Ended.Sub(begin) != 5*time.Second {
			t.Errorf("%+v, want it to run from the beginning for %v", p, 5*time.Second)
		}
	})
}

func TestCaller(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		conn, err := n.Dial(grpc.WithUserAgent("someone"))
		n.ok(err)
		defer conn.Close()
		_, err = runtimeapi.NewRuntimeServiceClient(conn).Version(n.Context(), &runtimeapi.VersionRequest{})
		n.ok(err)
		n.sandboxes()
		if j := n.Journal(); !strings.HasPrefix(j[0].Caller, "someone ") || strings.Contains(j[1].Caller, "someone") {
			t.Errorf("%q and %q, want it to begin with %q and no %q in it", j[0].Caller, j[1].Caller, "someone ", "someone")
		}
	})
}

// With a latency, no two calls end at the same instant, and events stay in order.
func TestRandomLatency(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		n.ok(n.SetRandom(faults.Random{Seed: 1, Latency: time.Millisecond}))
		ends := map[time.Time]bool{}
		for range 20 {
			go n.sandboxes()
		}
		time.Sleep(time.Second)
		for _, c := range n.Journal() {
			ends[c.End] = true
			if c.Duration() <= 0 || c.Duration() > time.Millisecond {
				t.Errorf("%v, want more than Duration 0 and at most Duration %v", c, time.Millisecond)
			}
		}
		if len(ends) < 18 {
			t.Errorf("20 calls end at %d times", len(ends))
		}
	})
}

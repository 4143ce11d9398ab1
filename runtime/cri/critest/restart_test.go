package critest

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

func TestF8_FatesOfARestart(t *testing.T) {
	const gone = runtimeapi.ContainerState(-1)
	for name, tc := range map[string]struct {
		fate  faults.RestartEffect
		state runtimeapi.ContainerState
		code  int32
	}{
		"kept":    {faults.EffectNone, runtimeapi.ContainerState_CONTAINER_RUNNING, 0},
		"lost":    {faults.EffectStopped, runtimeapi.ContainerState_CONTAINER_EXITED, 255},
		"gone":    {faults.EffectRemoved, gone, 0},
		"doubted": {faults.EffectUnknown, runtimeapi.ContainerState_CONTAINER_UNKNOWN, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onBubble(t, Config{}, func(n *node) {
				sandbox, id := n.runs("uid", "serve")
				n.ok(n.Restart(faults.Restart{Down: time.Minute, Sandboxes: faults.EffectStopped, Containers: tc.fate}))
				_, err := n.inspect(id)
				n.code(err, codes.Unavailable)
				time.Sleep(time.Minute)
				if st := n.sandboxes()[0]; st.GetId() != sandbox || st.GetState() != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
					n.Errorf("sandbox %v, want Id %v and State %v", st, sandbox, runtimeapi.PodSandboxState_SANDBOX_NOTREADY)
				}
				if tc.state == gone {
					_, err := n.inspect(id)
					n.code(err, codes.NotFound)
					return
				}
				n.wantState(id, tc.state, tc.code)
				n.ok(n.stopIt(n.Context(), id, 5))
			})
		})
	}
}

func TestF8_SandboxGone(t *testing.T) {
	for _, containers := range []faults.RestartEffect{faults.EffectNone, faults.EffectRemoved} {
		onBubble(t, Config{}, func(n *node) {
			n.runs("uid", "serve")
			n.ok(n.Restart(faults.Restart{Sandboxes: faults.EffectRemoved, Containers: containers}))
			if len(n.sandboxes())+len(n.containers()) != 0 {
				n.Error("something is left")
			}
			n.runs("uid", "serve") // the names are free
		})
	}
}

func TestF8_CallsInFlight(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, id := n.runs("uid", script(deaf)...)
		events := n.events()
		n.inject(faults.Fault{Match: faults.Match{Method: RunPodSandbox}, When: faults.Midway, Hang: new(faults.Gate), IgnoreCancel: true})
		results := make(chan error, 2)
		go func() { results <- n.stopIt(n.Context(), id, 1000) }()
		go func() {
			_, err := n.trySandbox(n.Context(), "other")
			results <- err
		}()
		synctest.Wait()
		n.ok(n.Restart(faults.Restart{Down: time.Second}))
		n.code(<-results, codes.Unavailable)
		n.code(<-results, codes.Unavailable)
		if _, err := events(); status.Code(err) != codes.Unavailable {
			n.Errorf("the stream ended with %v", err)
		}
		time.Sleep(time.Second)
		if got := n.sandboxes(); len(got) != 1 {
			n.Errorf("%d sandboxes: one was made by a dead runtime", len(got))
		}
		n.newSandbox("other")
	})
}

// While the runtime is down, its clients go through their own reconnection.
func TestF8_Disconnect(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		n.newSandbox("uid")
		n.ok(n.Restart(faults.Restart{Down: 10 * time.Second, Disconnect: true}))
		_, err := n.rt.Version(n.Context(), &runtimeapi.VersionRequest{})
		n.code(err, codes.Unavailable)
		took := after(func() {
			for err != nil {
				time.Sleep(100 * time.Millisecond)
				_, err = n.rt.Version(n.Context(), &runtimeapi.VersionRequest{})
			}
		})
		if took < 9*time.Second || took > time.Minute {
			n.Errorf("the runtime was unavailable for %v, want about 10 s", took)
		}
		if len(n.sandboxes()) != 1 {
			n.Error("the sandbox is gone")
		}
	})
}

func TestRestartValidates(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		for _, r := range []faults.Restart{{Down: -1}, {Sandboxes: 9}, {Containers: 9}} {
			if n.Restart(r) == nil {
				n.Errorf("%+v", r)
			}
		}
	})
}

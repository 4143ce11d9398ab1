package critest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

func TestF5_ForcedStates(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox, id := n.runs("uid", "serve")
		n.ok(n.EditContainer(id, func(s *runtimeapi.ContainerStatus) {
			s.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN
			s.CreatedAt = 0
		}))
		st, err := n.inspect(id)
		n.ok(err)
		if st.GetState() != runtimeapi.ContainerState_CONTAINER_UNKNOWN || st.GetCreatedAt() != 0 {
			n.Errorf("%v, want State %v and CreatedAt 0", st, runtimeapi.ContainerState_CONTAINER_UNKNOWN)
		}
		n.ok(n.EditSandbox(sandbox, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
		if got := n.sandboxes()[0].GetState(); got != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
			n.Errorf("sandbox %v, want %v", got, runtimeapi.PodSandboxState_SANDBOX_NOTREADY)
		}
		if n.address(sandbox) == "" {
			n.Error("the address was removed without a fault")
		}
		n.ok(n.stopIt(n.Context(), id, 5)) // the process exists and ends
		n.wantState(id, runtimeapi.ContainerState_CONTAINER_EXITED, 143)
	})
}

func TestF5_UnknownWithoutAProcess(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, id := n.runs("uid", "true")
		synctest.Wait()
		n.ok(n.EditContainer(id, func(s *runtimeapi.ContainerStatus) { s.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN }))
		n.ok(n.stopIt(n.Context(), id, 5))
		n.wantState(id, runtimeapi.ContainerState_CONTAINER_EXITED, unknownExitCode)
		if n.EditContainer("none", nil) == nil || n.EditSandbox("none", nil) == nil {
			n.Error("a missing container or sandbox was edited")
		}
	})
}

func TestC2_F5_CreatedLaterThanTheNextAttempt(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox, first := n.runs("uid", "true")
		second, err := n.tryContainer(n.Context(), sandbox, "uid", 1, "serve")
		n.ok(err)
		n.ok(n.EditContainer(first, func(s *runtimeapi.ContainerStatus) { s.CreatedAt += int64(time.Hour) }))
		list := n.containers()
		if list[0].GetId() != first || list[1].GetId() != second || list[0].GetCreatedAt() < list[1].GetCreatedAt() {
			n.Errorf("%v, want Id %v and Id %v and at least CreatedAt %v", list, first, second, list[1].GetCreatedAt())
		}
	})
}

func TestF6_ListAndInspectDisagree(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox, id := n.runs("uid", "serve")
		show := n.Hide(id, faults.InStatus)
		if _, err := n.inspect(id); err == nil || len(n.containers()) != 1 {
			n.Errorf("inspect %v, %d listed", err, len(n.containers()))
		}
		show()
		show = n.Hide(id, faults.InList)
		if _, err := n.inspect(id); err != nil || len(n.containers()) != 0 {
			n.Errorf("inspect %v, %d listed", err, len(n.containers()))
		}
		show()
		defer n.Hide(sandbox, faults.InList|faults.InStatus)()
		_, err := n.rt.PodSandboxStatus(n.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox})
		n.code(err, codes.NotFound)
		if len(n.sandboxes()) != 0 || len(n.containers()) != 1 {
			n.Error("the wrong thing is hidden")
		}
	})
}

func TestG1_F7_RemovedByHand(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox, id := n.runs("uid", "serve")
		events := n.events()
		calls := len(n.Journal())
		n.ok(n.Remove(id))
		n.ok(n.Remove("app"))
		if len(n.containers()) != 0 || len(n.Journal().Of(RemoveContainer, RemoveImage)) != 0 {
			n.Errorf("%d containers, journal\n%v", len(n.containers()), n.Journal().After(calls))
		}
		_, err := n.tryContainer(n.Context(), sandbox, "uid", 1, "serve")
		n.code(err, codes.NotFound)
		n.ok(n.Remove(sandbox))
		if len(n.sandboxes()) != 0 {
			n.Error("the sandbox is there")
		}
		got, _ := events()
		var deleted int
		for _, e := range got {
			if e.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT {
				deleted++
			}
		}
		if deleted != 2 {
			n.Errorf("%d removals were reported, want 2", deleted)
		}
		if n.Remove("none") == nil {
			n.Error("a missing object was removed")
		}
	})
}

func TestF11_DeafProcess(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, id := n.runs("uid", script(deaf)...)
		time.Sleep(time.Second)
		if took := after(func() { n.ok(n.stopIt(n.Context(), id, 30)) }); took != 30*time.Second {
			n.Errorf("it took %v, want %v", took, 30*time.Second)
		}
		n.wantState(id, runtimeapi.ContainerState_CONTAINER_EXITED, 137)
	})
}

func TestF11_Stubborn(t *testing.T) {
	for name, tc := range map[string]struct {
		ignores       faults.IgnoreSignals
		first, second int64         // timeouts; the second call begins a second later
		takes         time.Duration // until both calls have returned
	}{
		"no":                       {faults.IgnoreSignals{}, 30, 10, time.Second},
		"to the signal":            {faults.IgnoreSignals{Term: true}, 30, 10, 11 * time.Second},
		"a later stop is ignored":  {faults.IgnoreSignals{Term: true, FirstStopOnly: true}, 30, 10, 30 * time.Second},
		"a later stop with 0, too": {faults.IgnoreSignals{Term: true, FirstStopOnly: true}, 30, 0, 30 * time.Second},
		"a later stop with 0":      {faults.IgnoreSignals{Term: true}, 30, 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onBubble(t, Config{}, func(n *node) {
				sandbox := n.newSandbox("uid")
				if tc.ignores != (faults.IgnoreSignals{}) {
					n.inject(faults.Fault{Match: faults.Match{Method: CreateContainer}, IgnoreSignals: tc.ignores})
				}
				id := n.newContainer(sandbox, "uid", "serve")
				n.ok(n.startIt(id))
				took := after(func() {
					done := make(chan error, 1)
					go func() { done <- n.stopIt(n.Context(), id, tc.first) }()
					time.Sleep(time.Second)
					n.ok(n.stopIt(n.Context(), id, tc.second))
					n.ok(<-done)
				})
				if took != tc.takes {
					n.Errorf("both stops took %v, want %v", took, tc.takes)
				}
			})
		})
	}
}

func TestF11_Unkillable(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox, id := n.runs("uid", "serve")
		n.ok(n.SetIgnoreSignals(id, faults.IgnoreSignals{Term: true, Kill: true}))
		for range 2 {
			ctx, cancel := context.WithTimeout(n.Context(), time.Minute)
			n.code(n.stopIt(ctx, id, 2), codes.DeadlineExceeded)
			_, err := n.rt.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox})
			n.code(err, codes.DeadlineExceeded)
			cancel()
		}
		n.wantState(id, runtimeapi.ContainerState_CONTAINER_RUNNING, 0)
		n.ok(n.SetIgnoreSignals(id, faults.IgnoreSignals{}))
		synctest.Wait()
		n.wantState(id, runtimeapi.ContainerState_CONTAINER_EXITED, 137)
		if n.SetIgnoreSignals("none", faults.IgnoreSignals{}) == nil {
			n.Error("a container that does not exist ignores signals")
		}
	})
}

func TestF12_Address(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		n.inject(faults.Fault{Match: faults.Match{Method: RunPodSandbox, PodUID: "late"}, IPAfter: 5 * time.Second})
		n.inject(faults.Fault{Match: faults.Match{Method: RunPodSandbox, PodUID: "never"}, IPAfter: faults.Never})
		late, never, normal := n.newSandbox("late"), n.newSandbox("never"), n.newSandbox("normal")
		if n.address(late) != "" || n.address(never) != "" || n.address(normal) == "" {
			n.Error("at once, want only the normal sandbox to have an address")
		}
		time.Sleep(5 * time.Second)
		if n.address(late) == "" || n.address(never) != "" {
			n.Error("after 5 s, want the late sandbox to have an address, and the other one none")
		}
		n.ok(n.EditSandbox(never, func(s *runtimeapi.PodSandboxStatus) { s.Network.Ip = "10.0.0.9" }))
		if got := n.address(never); got != "10.0.0.9" {
			n.Errorf("given by hand: %q", got)
		}
		n.ok(n.EditSandbox(normal, func(s *runtimeapi.PodSandboxStatus) { s.Network = nil }))
		if got := n.address(normal); got != "" {
			n.Errorf("vanished by hand: %q", got)
		}
		_, err := n.rt.StopPodSandbox(n.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: late})
		n.ok(err)
		if got := n.address(late); got != "" {
			n.Errorf("torn down: %q", got)
		}
	})
}

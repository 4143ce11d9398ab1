package syncpod_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
)

// For a pod that only the runtime has, the agent runs the preStop handlers with which its
// containers were created, within the grace period of one second.
func TestRuntimePodRunsItsPreStopHandlers(t *testing.T) {
	for name, tc := range map[string]struct {
		hook string
		want time.Duration
	}{"short": {"0.5", 500 * time.Millisecond}, "hung": {"1000", time.Second}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.settle(testPod(containers(preStop(ctr("app"), "sleep", tc.hook), ctr("b"))), time.Minute)
				n.restart()
				began := time.Now()
				must(t, n.SyncTerminatingRuntimePod(t.Context(), syncpod.RuntimePod{UID: podUID}))
				if took := time.Since(began); took != tc.want {
					t.Errorf("took %v, want %v\n%v", took, tc.want, n.Journal())
				}
				if ran := n.Journal().Count(critest.ExecSync); ran != 1 {
					t.Errorf("%d hooks were run, want one", ran)
				}
				n.wantEnded()
			})
		})
	}
}

// The same holds for a container that the edited pod no longer has.
func TestContainerThatLeftTheSpecIsStoppedWithItsHandler(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(containers(ctr("app"), preStop(ctr("old"), "true"))), time.Minute)
		n.end(testPod(), nil)
		n.wantEnded()
		if ran := n.Journal().Container("old").Count(critest.ExecSync); ran != 1 {
			t.Errorf("%d hooks were run, want one", ran)
		}
	})
}

// A container is stopped in time, even if the runtime does not return its
// annotations.
func TestRuntimePodEndsWithoutItsHandlers(t *testing.T) {
	for name, fail := range map[string]func(*faults.Fault){
		"fails": func(f *faults.Fault) { f.Err = errBroken },
		"hangs": func(f *faults.Fault) { f.Hang = &faults.Gate{} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.settle(testPod(containers(preStop(ctr("app"), "true"))), time.Minute)
				n.restart()
				fault := faults.Fault{Match: faults.Match{Method: critest.ListContainers}, Skip: 1}
				fail(&fault)
				n.Fault(fault)
				began := time.Now()
				must(t, n.SyncTerminatingRuntimePod(t.Context(), syncpod.RuntimePod{UID: podUID}))
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("took %v, want at most %v", took, 3*time.Second)
				}
				n.wantEnded()
			})
		})
	}
}

// A handler gets the pod's addresses, although the pod has no status.
func TestHandlersGetThePodsAddress(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		var hosts []string
		n.restart(func(c *syncpod.Config) {
			c.Parts.Hooks = hooksFunc(func(_ context.Context, req handler.Request) (handler.Result, error) {
				hosts = append(hosts, req.PodIP)
				return handler.Result{}, nil
			})
		})
		pod := testPod()
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: exec("true"), PreStop: exec("true")}
		n.settle(pod, time.Minute)
		ip := n.status().IPs()[0]
		n.end(pod, nil)
		if len(hosts) != 2 || hosts[0] != ip || hosts[1] != ip {
			t.Errorf("addresses %q, want %q twice", hosts, ip)
		}
		if pod.Status.PodIP != "" {
			t.Error("the pod handed in was written to")
		}
	})
}

// A failed handler is reported, and does not prevent a container's stop.
func TestFailedPreStopIsReported(t *testing.T) {
	for command, want := range map[string]int{"true": 0, "false": 1} {
		t.Run(command, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				pod := testPod(containers(preStop(ctr("app"), command)))
				n.settle(pod, time.Minute)
				n.end(pod, nil)
				n.wantEnded()
				if n.events.count("FailedPreStopHook spec.containers{app}") != want {
					t.Errorf("events %q, want %d of the hook's failure", n.events.all, want)
				}
			})
		})
	}
}

// K1: the grace period of a container of a running pod begins with the first attempt to stop it. If the stop
// was called off, it begins with the next stop.
func TestK1_TimeOfOneContainer(t *testing.T) {
	changed := testPod()
	changed.Spec.Containers[0].Image = "registry.test/app:2"
	for name, tc := range map[string]struct {
		calledOff bool
		want      time.Duration
	}{"tried again": {want: 30 * time.Second}, "called off": {calledOff: true, want: time.Hour + 42*time.Second}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.settle(testPod(), time.Minute)
				n.stubborn("app")
				began := time.Now()
				n.SyncPod(giveUp(t, 12*time.Second), changed, nil)
				if tc.calledOff {
					n.sync(testPod())
					time.Sleep(time.Hour)
				}
				n.sync(changed)
				if took := time.Since(began); took != tc.want {
					t.Errorf("stopped after %v, want %v\n%v", took, tc.want, n.Journal().Of(critest.StopContainer))
				}
				n.wantStates("app 0 exited", "app 1 running")
			})
		})
	}
}

// K1: the call's timeout does not end the grace period of the containers,
// even if the runtime is the first to report it: they are not killed earlier.
func TestK1_CancelledCallKillsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		var all []v1.Container // many, for it is open which of two timers of one instant is first
		for i := range 40 {
			all = append(all, ctr(fmt.Sprint("c", i)))
		}
		n.restart(func(c *syncpod.Config) { c.Client = n.calling(punctual{c.Client, errDeadline}) })
		pod := testPod(containers(all...))
		n.settle(pod, time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := n.SyncTerminatingPod(ctx, syncpod.Termination{Pod: pod}); err == nil {
			t.Error("no error although they run")
		}
		if told, calls := n.events.count("ExceededGracePeriod"), n.Journal().Of(critest.StopContainer, critest.StopPodSandbox); told != 0 || len(calls) != 0 {
			t.Errorf("%d events of an exceeded grace period, and the calls\n%v", told, calls)
		}
	})
}

package lifecycle

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// sandboxed adds a sandbox to a status.
func sandboxed(p Pod, id string) Pod {
	p.Status.Sandboxes = append(p.Status.Sandboxes, runtime.SandboxStatus{ID: id})
	return p
}

// without removes the lines that have one of the texts.
func (r *rig) without(texts ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.transcript = slices.DeleteFunc(r.transcript, func(e entry) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(e.line, text) })
	})
}

// I5: all containers stop concurrently, except sidecars, which stop after the containers that they serve. The sandboxes
// stop last, even those that have stopped before.
func TestAPodStopsInOrder(t *testing.T) {
	bubble(t, func(r *rig) {
		r.stops = ends{"app": takes(3 * time.Second), "b": takes(time.Second), "s1": takes(2 * time.Second), "s0": takes(time.Second), "left": takes(4 * time.Second)}
		r.sandboxes = ends{"sb": takes(time.Second), "old": takes(2 * time.Second)}
		p := sandboxed(r.pod(testPod(), 30*time.Second, "app", "s0", "s1", "b", "left"), "old")
		r.list = func(*runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) { return nil, nil }
		r.wantError(r.KillPod(r.Context(), p), nil)
		r.without("Killing", "list", "deadline")
		r.wantSorted("0 stop app 30", "0 stop b 30", "0 stop left 30", "1 stopped b after 1, failed: false", "3 stopped app after 3, failed: false",
			"4 stop s1 26", "4 stopped left after 4, failed: false", "6 stop s0 24", "6 stopped s1 after 6, failed: false", "7 stop sandbox old", "7 stop sandbox sb",
			"7 stopped s0 after 7, failed: false")
		if took := time.Since(r.began); took != 9*time.Second {
			r.Errorf("the sandboxes took until %v, want 9s: both stop at once", took)
		}
	})
}

// The Killing event of a pod's stop names the container and no other reason.
func TestEventOfAPodsStop(t *testing.T) {
	bubble(t, func(r *rig) {
		r.wantError(r.KillPod(r.Context(), r.pod(testPod(), 30*time.Second, "app")), nil)
		r.want(`0 event Killing about "spec.containers{app}": Stopping container app`, "0 stop app 30", "0 stopped app after 0, failed: false", "0 stop sandbox sb")
	})
}

// A container that could not be stopped keeps the sidecars and the sandbox running until its grace
// period expires. Other sandboxes stop.
func TestAFailedStopSparesItsSandbox(t *testing.T) {
	bubble(t, func(r *rig) {
		r.stops = ends{"app": func(context.Context, int) error {
			time.Sleep(2 * time.Second)
			return errBroken
		}}
		err := r.KillPod(r.Context(), sandboxed(r.pod(testPod("s0"), 30*time.Second, "app", "s0", "b"), "old"))
		for _, want := range []error{errBroken, errOrder, errSpared} {
			r.wantError(err, want)
		}
		if !strings.Contains(err.Error(), "container app: ") || !strings.Contains(err.Error(), "container s0: ") || strings.Contains(err.Error(), "container b: ") {
			r.Errorf("error %q names the wrong containers", err)
		}
		r.without("Killing")
		r.wantSorted("0 hook of s0 ended after 0, failed: false", "0 hook s0", "0 record", "0 stop app 30", "0 stop b 30", "0 stopped b after 0, failed: false", "2 stop sandbox old", "2 stopped app after 2, failed: true",
			"2 stopped s0 after 2, failed: true")
	})
}

// Once the grace period has expired, the sidecars and the sandbox are stopped, too.
func TestAFailedStopAtTheEnd(t *testing.T) {
	bubble(t, func(r *rig) {
		r.stops = ends{"app": fails(errBroken)}
		r.wantError(r.KillPod(r.Context(), r.pod(testPod(), 0, "app", "s0")), errBroken)
		r.without("Killing")
		r.wantSorted("0 stop app 2", "0 stop s0 2", "0 stop sandbox sb", "0 stopped app after 0, failed: true", "0 stopped s0 after 0, failed: false")
	})
}

// K1: a sidecar waits for no container beyond the grace period.
func TestASidecarStopsAtTheDeadline(t *testing.T) {
	bubble(t, func(r *rig) {
		r.stops = ends{"app": takes(10*time.Second + 200*time.Millisecond)}
		r.wantError(r.KillPod(r.Context(), r.pod(testPod(), 10*time.Second, "app", "s0")), nil)
		r.without("Killing")
		r.wantSorted("0 stop app 10", "10 stop s0 2", "10 stopped s0 after 10, failed: false", "10.2 stop sandbox sb", "10.2 stopped app after 10.2, failed: false")
	})
}

// A sidecar whose grace period has expired stops, even if earlier containers have not stopped.
func TestAnExpiredSidecarWaitsForNoStop(t *testing.T) {
	failed := &kill{ended: make(chan struct{}), err: errBroken}
	close(failed.ended)
	for range 100 { // which of two events a select takes is random
		k := kill{Container: Container{Deadline: time.Now().Add(-time.Second)}, after: []*kill{failed}}
		if err := k.wait(t.Context()); err != nil {
			t.Fatalf("error %v, want none", err)
		}
	}
}

// A stop that is given up stops neither sidecars nor sandboxes.
func TestStopOfAPodIsCancelled(t *testing.T) {
	bubble(t, func(r *rig) {
		r.stops = ends{"app": hangs}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		time.AfterFunc(3*time.Second, cancel)
		r.wantError(r.KillPod(ctx, sandboxed(r.pod(testPod(), 10*time.Second, "app", "s0"), "old")), context.Canceled)
		r.without("Killing")
		r.wantSorted("0 stop app 10", "3 stopped app after 3, failed: true", "3 stopped s0 after 3, failed: true")
	})
}

// W3: a container that the runtime does not kill is stopped with its sandbox, which is stopped once.
func TestEscalationStopsTheSandbox(t *testing.T) {
	for name, tc := range map[string]struct {
		sandbox func(context.Context, int) error
		want    []string
		err     error
	}{
		"stops": {takes(time.Second), []string{"10.5 stop app 0", "11 stop sandbox sb", "12 stop sandbox old", "12 stopped app after 12, failed: false"}, nil},
		"fails": {fails(errBroken), []string{"10.5 stop app 0", "11 stop sandbox old", "11 stop sandbox sb", "11 stop sandbox sb", "11 stopped app after 11, failed: true"}, errBroken},
		"hangs": {hangs, []string{"10.5 stop app 0", "11 stop sandbox sb", "15.5 stop sandbox old", "15.5 stop sandbox sb", "15.5 stopped app after 15.5, failed: true"},
			context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.stops, r.sandboxes = ends{"app": hangs}, ends{"sb": tc.sandbox}
				r.wantError(r.KillPod(r.Context(), sandboxed(r.pod(testPod(), 10*time.Second, "app"), "old")), tc.err)
				r.without("Killing", "ExceededGracePeriod", "stopping container")
				r.wantLog(`"level"=0 "msg"="stopping the sandbox of a container that does not stop" "pod"="ns/web" "podUID"="u" "container"="app"`)
				r.wantSorted(append([]string{"0 stop app 10"}, tc.want...)...)
			})
		})
	}
}

// K3: a sandbox that hangs holds up the stop for the Timeout, and no other sandbox.
func TestSandboxesAreBounded(t *testing.T) {
	bubble(t, func(r *rig) {
		r.sandboxes = ends{"sb": hangs}
		r.wantError(r.KillPod(r.Context(), sandboxed(r.pod(testPod(), time.Minute), "old")), context.DeadlineExceeded)
		r.wantSorted("0 stop sandbox old", "0 stop sandbox sb")
		if took := time.Since(r.began); took != 5*time.Second {
			r.Errorf("took %v, want 5s", took)
		}
	})
}

// Running containers that are missing in the spec have the handlers of their annotations.
func TestHandlersWithoutASpec(t *testing.T) {
	handler := map[string]string{runtime.AnnotationPreStopHandler: `{"exec":{"command":["drain"]}}`}
	listed := func(*runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
		return []*runtimeapi.Container{{Id: "other", Annotations: handler}, {Id: "left", Annotations: handler}, {Id: "bad",
			Annotations: map[string]string{runtime.AnnotationPreStopHandler: "{"}, Labels: map[string]string{runtime.LabelPodUID: "u", runtime.LabelContainerName: "bad"}}}, nil
	}
	broken := func(*runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) { return nil, errBroken }
	ran := []string{"0 hook left", "0 hook of left ended after 0, failed: false", "0 record"}
	for name, tc := range map[string]struct {
		list  func(*runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
		state runtime.ContainerState
		grace time.Duration
		names []string
		want  []string
		log   string
	}{
		"a handler":         {listed, runtime.ContainerRunning, 30 * time.Second, []string{"left"}, append([]string{"0 deadline 30"}, append(ran[:2:2], "0 list", ran[2])...), ""},
		"a malformed one":   {listed, runtime.ContainerRunning, 30 * time.Second, []string{"bad"}, []string{"0 deadline 30", "0 list"}, `"a preStop handler is skipped" "error"="handler: annotation`},
		"no list":           {broken, runtime.ContainerRunning, 30 * time.Second, []string{"left"}, []string{"0 deadline 30", "0 list"}, `"preStop handlers of containers without a spec are skipped"`},
		"no time":           {listed, runtime.ContainerRunning, 0, []string{"left"}, nil, ""},
		"in the spec":       {nil, runtime.ContainerRunning, 30 * time.Second, []string{"b"}, nil, ""},
		"an unknown state":  {nil, runtime.ContainerUnknown, 30 * time.Second, []string{"left"}, nil, ""},
		"of another, alone": {listed, runtime.ContainerRunning, 30 * time.Second, []string{"third"}, []string{"0 deadline 30", "0 list"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.config.Owner = cri.Owner{Name: "me"}
				r.list = func(f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
					if want := map[string]string{runtime.LabelPodUID: "u", cri.LabelOwner: "me"}; !maps.Equal(f.GetLabelSelector(), want) {
						r.Errorf("listed by %v, want %v", f.GetLabelSelector(), want)
					}
					return tc.list(f)
				}
				p := r.pod(testPod(), tc.grace, tc.names...)
				p.Status.Containers[0].State = tc.state
				r.wantError(r.KillPod(r.Context(), p), nil)
				r.without(" stop", "stopped", "stop ", "event", "stopping")
				if tc.log != "" && !slices.ContainsFunc(r.transcript, func(e entry) bool { return strings.Contains(e.line, tc.log) }) {
					r.Errorf("no line %q", tc.log)
				}
				r.wantSorted(tc.want...)
			})
		})
	}
}

// K6: a pod has stopped when an inspection finds no running container. Containers that have started meanwhile are
// stopped, at most three times.
func TestTerminatePod(t *testing.T) {
	dead := &runtime.PodStatus{UID: "u", Sandboxes: []runtime.SandboxStatus{{ID: "sb"}}, Containers: []runtime.ContainerStatus{instance("app", runtime.ContainerExited)}}
	alive := &runtime.PodStatus{UID: "u", Sandboxes: []runtime.SandboxStatus{{ID: "sb"}}, Containers: []runtime.ContainerStatus{instance("b", runtime.ContainerRunning)}}
	errUnseen := errors.New("unseen")
	for name, tc := range map[string]struct {
		stops, sandboxes ends
		grace            time.Duration
		looks            []*runtime.PodStatus // nil for an error; the last one is used for all later inspections
		alive            bool
		err              error
		stopped          map[string]int
		inspected        int
	}{
		"ends":                       {nil, nil, time.Minute, []*runtime.PodStatus{dead}, false, nil, map[string]int{"stop app": 1, "sandbox sb": 1}, 1},
		"another is alive":           {nil, nil, time.Minute, []*runtime.PodStatus{alive, dead}, false, nil, map[string]int{"stop app": 1, "stop b": 1, "sandbox sb": 2}, 2},
		"another is always alive":    {nil, nil, time.Minute, []*runtime.PodStatus{alive}, true, nil, map[string]int{"stop app": 1, "stop b": 2, "sandbox sb": 3}, 3},
		"unseen":                     {nil, nil, time.Minute, []*runtime.PodStatus{nil}, false, errUnseen, map[string]int{"stop app": 1, "sandbox sb": 1}, 1},
		"not stopped, but dead":      {ends{"app": fails(errBroken)}, nil, 0, []*runtime.PodStatus{dead}, false, nil, map[string]int{"stop app": 1, "sandbox sb": 1}, 1},
		"not stopped, and alive":     {ends{"app": fails(errBroken)}, nil, 0, []*runtime.PodStatus{alive}, false, errBroken, map[string]int{"stop app": 1, "sandbox sb": 1}, 1},
		"not stopped, and spared":    {ends{"app": fails(errBroken)}, nil, time.Minute, []*runtime.PodStatus{dead}, false, errBroken, map[string]int{"stop app": 1}, 1},
		"its sandbox is not stopped": {nil, ends{"sb": fails(errBroken)}, time.Minute, []*runtime.PodStatus{dead}, false, errBroken, map[string]int{"stop app": 1, "sandbox sb": 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.stops, r.sandboxes = tc.stops, tc.sandboxes
				inspected := 0
				alive, err := r.TerminatePod(r.Context(), r.pod(testPod(), tc.grace, "app"), func(context.Context) (*runtime.PodStatus, error) {
					status := tc.looks[min(inspected, len(tc.looks)-1)]
					inspected++
					if status == nil {
						return nil, errUnseen
					}
					return status, nil
				})
				r.wantError(err, tc.err)
				if alive != tc.alive {
					r.Errorf("alive %t, want %t", alive, tc.alive)
				}
				if !maps.Equal(r.calls, tc.stopped) || inspected != tc.inspected {
					r.Errorf("calls %v and %d inspections, want %v and %d", r.calls, inspected, tc.stopped, tc.inspected)
				}
			})
		})
	}
}

// A stop that is given up is not inspected.
func TestTerminatePodIsCancelled(t *testing.T) {
	bubble(t, func(r *rig) {
		r.stops = ends{"app": hangs}
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		alive, err := r.TerminatePod(ctx, r.pod(testPod(), time.Minute, "app"), func(context.Context) (*runtime.PodStatus, error) {
			r.Error("inspected")
			return nil, nil
		})
		if r.wantError(err, context.DeadlineExceeded); alive {
			r.Error("it is alive")
		}
	})
}

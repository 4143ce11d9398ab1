package lifecycle

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/memory"
)

// A running container gets one event, one line and one call with its whole grace period.
func TestAContainerIsStopped(t *testing.T) {
	bubble(t, func(r *rig) {
		r.stops = ends{"app": takes(3 * time.Second)}
		r.wantError(r.KillContainer(r.Context(), r.container(testPod(), "app", runtime.ContainerRunning, 30*time.Second)), nil)
		r.want(`0 event Killing about "spec.containers{app}": why`, "0 stop app 30", "3 stopped app after 3, failed: false")
		r.wantLog(`"level"=0 "msg"="stopping container" "pod"="ns/web" "podUID"="u" "container"="app" "containerID"="test://app" "why"="why"`)
		r.wantMarks("app", memory.StopSignalled)
	})
}

// Events of a container that is missing in the spec are events of its pod. A pod without a known spec
// has no events.
func TestWhatEventsAreAbout(t *testing.T) {
	bubble(t, func(r *rig) {
		r.wantError(r.KillContainer(r.Context(), r.container(testPod(), "left", runtime.ContainerRunning, time.Minute)), nil)
		r.wantError(r.KillContainer(r.Context(), r.container(nil, "app", runtime.ContainerRunning, time.Minute)), nil)
		r.want(`0 event Killing about "": why`, "0 stop left 60", "0 stopped left after 0, failed: false", "0 stop app 60", "0 stopped app after 0, failed: false")
	})
}

// C1: a container that was created is stopped and then removed, without an event.
func TestACreatedContainerIsRemoved(t *testing.T) {
	for name, tc := range map[string]struct {
		stops, removes ends
		want           []string
		err            error
	}{
		"at once":    {nil, nil, []string{"0 stop app 0", "0 remove app", "0 stopped app after 0, failed: false"}, nil},
		"not found":  {ends{"app": fails(errGone)}, ends{"app": fails(errGone)}, []string{"0 stop app 0", "0 remove app", "0 stopped app after 0, failed: false"}, nil},
		"not stop":   {ends{"app": fails(errBroken)}, nil, []string{"0 stop app 0", "0 stopped app after 0, failed: true"}, errBroken},
		"hung stop":  {ends{"app": hangs}, nil, []string{"0 stop app 0", "5 stopped app after 5, failed: true"}, context.DeadlineExceeded},
		"not remove": {nil, ends{"app": fails(errBroken)}, []string{"0 stop app 0", "0 remove app", "0 stopped app after 0, failed: true"}, errBroken},
		"hung remove": {ends{"app": takes(2 * time.Second)}, ends{"app": hangs}, []string{"0 stop app 0", "2 remove app", "7 stopped app after 7, failed: true"},
			context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.stops, r.removes = tc.stops, tc.removes
				r.wantError(r.KillContainer(r.Context(), r.container(testPod("app"), "app", runtime.ContainerCreated, time.Minute)), tc.err)
				r.want(tc.want...)
				r.wantMarks("app", 0)
			})
		})
	}
}

// A container of any state has two seconds before it is disposed of.
func TestDispose(t *testing.T) {
	bubble(t, func(r *rig) {
		r.stops = ends{"x": hangs}
		r.wantError(r.Dispose(r.Context(), "x"), context.DeadlineExceeded)
		r.wantError(r.Dispose(r.Context(), "y"), nil)
		r.want("0 stop x 2", "7 stop y 2", "7 remove y")
	})
}

// W3: the second stop of an instance causes no event, and has the remaining grace period, which may be
// zero. The first one has at least two seconds.
func TestTheNextStopHasTheRest(t *testing.T) {
	bubble(t, func(r *rig) {
		c := r.container(testPod(), "app", runtime.ContainerRunning, -time.Second)
		r.wantError(r.KillContainer(r.Context(), c), nil)
		r.wantError(r.KillContainer(r.Context(), c), nil)
		r.want(`0 event Killing about "spec.containers{app}": why`, "0 stop app 2", "0 stopped app after 0, failed: false", "0 stop app 0", "0 stopped app after 0, failed: false")
	})
}

// A refused stop has sent no signal; an answer that leaves that open may have.
func TestStateAfterAStop(t *testing.T) {
	for name, tc := range map[string]struct {
		end   func(context.Context, int) error
		after time.Duration // when the caller cancels, zero if it does not
		err   error
		want  memory.Mark
	}{
		"refused":     {fails(errBroken), 0, errBroken, 0},
		"not found":   {fails(errGone), 0, nil, memory.StopSignalled},
		"unavailable": {fails(errAway), 0, cri.ErrUnavailable, memory.StopSignalled},
		"given up":    {hangs, time.Second, context.Canceled, memory.StopSignalled},
		"refused when given up": {func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return errBroken
		}, time.Second, errBroken, memory.StopSignalled},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.stops = ends{"app": tc.end}
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				if tc.after > 0 {
					time.AfterFunc(tc.after, cancel)
				}
				r.wantError(r.KillContainer(ctx, r.container(testPod(), "app", runtime.ContainerRunning, time.Minute)), tc.err)
				if r.calls["stop app"] != 1 {
					r.Errorf("%d stops, want 1", r.calls["stop app"])
				}
				r.wantMarks("app", tc.want)
			})
		})
	}
}

// W3: if a container of a running pod does not stop, it is killed, and the kill is repeated;
// its sandbox keeps running. In total, this takes the grace period and the Timeout.
func TestEscalationWithoutASandbox(t *testing.T) {
	announced, exceeded := `0 event Killing about "spec.containers{app}": why`, `10.5 event ExceededGracePeriod about "": Container runtime did not kill the pod within specified grace period.`
	for name, tc := range map[string]struct {
		end  func(context.Context, int) error
		want []string
		err  error
	}{
		"killed":       {from(2, takes(0)), []string{"10.5 stop app 0", "10.5 stopped app after 10.5, failed: false"}, nil},
		"killed later": {from(3, takes(time.Second)), []string{"10.5 stop app 0", "11 stop app 0", "12 stopped app after 12, failed: false"}, nil},
		"just in time": {func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return nil
		}, []string{"10.5 stopped app after 10.5, failed: false"}, nil},
		"never":   {hangs, []string{"10.5 stop app 0", "11 stop app 0", "15.5 stopped app after 15.5, failed: true"}, context.DeadlineExceeded},
		"refused": {from(2, fails(errBroken)), []string{"10.5 stop app 0", "10.5 stop app 0", "10.5 stopped app after 10.5, failed: true"}, errBroken},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.stops = ends{"app": tc.end}
				r.wantError(r.KillContainer(r.Context(), r.container(testPod(), "app", runtime.ContainerRunning, 10*time.Second)), tc.err)
				want := []string{announced, "0 stop app 10", exceeded}
				if len(tc.want) == 1 {
					want = want[:2]
				}
				r.want(append(want, tc.want...)...)
				r.wantMarks("app", memory.StopSignalled)
			})
		})
	}
}

// After the caller has cancelled, no further call is made.
func TestEscalationIsCancelled(t *testing.T) {
	for after, want := range map[time.Duration]int{5 * time.Second: 1, 10*time.Second + 700*time.Millisecond: 2, 12 * time.Second: 3} {
		bubble(t, func(r *rig) {
			r.stops = ends{"app": hangs}
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			time.AfterFunc(after, cancel)
			if err := r.KillContainer(ctx, r.container(testPod(), "app", runtime.ContainerRunning, 10*time.Second)); !errors.Is(err, context.Canceled) {
				r.Errorf("error %v, want %v", err, context.Canceled)
			}
			if r.calls["stop app"] != want || time.Since(r.began) != after {
				r.Errorf("given up after %v: %d stops until %v, want %d", after, r.calls["stop app"], time.Since(r.began), want)
			}
		})
	}
}

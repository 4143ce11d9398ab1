package lifecycle

import (
	"math"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/actions"
)

// K1: the deletion takes precedence over the spec.
func TestPodGrace(t *testing.T) {
	deletedIn := func(seconds int64) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionGracePeriodSeconds: &seconds}}
	}
	whole := deletedIn(7)
	whole.Spec.TerminationGracePeriodSeconds = new(int64(30))
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		want time.Duration
	}{
		"deletion": {whole, 7 * time.Second},
		"spec":     {&v1.Pod{Spec: whole.Spec}, 30 * time.Second},
		"nothing":  {&v1.Pod{}, 2 * time.Second},
		"no spec":  {nil, time.Second},
		"negative": {deletedIn(-1), 0},
		"too long": {deletedIn(math.MaxInt64), maxSeconds * time.Second},
	} {
		if got := PodGrace(tc.pod); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// K1: only a container that failed a probe has the grace period of that probe (KEP-2238).
func TestContainerGrace(t *testing.T) {
	probe := func(seconds *int64) *v1.Probe { return &v1.Probe{TerminationGracePeriodSeconds: seconds} }
	pod := &v1.Pod{Spec: v1.PodSpec{TerminationGracePeriodSeconds: new(int64(30))}}
	both := &v1.Container{LivenessProbe: probe(new(int64(3))), StartupProbe: probe(new(int64(4)))}
	for name, tc := range map[string]struct {
		c    *v1.Container
		why  actions.Reason
		want time.Duration
	}{
		"liveness":              {both, actions.LivenessFailed, 3 * time.Second},
		"startup":               {both, actions.StartupFailed, 4 * time.Second},
		"another reason":        {both, actions.SpecChanged, 30 * time.Second},
		"no probe":              {&v1.Container{}, actions.LivenessFailed, 30 * time.Second},
		"a probe without grace": {&v1.Container{LivenessProbe: probe(nil)}, actions.LivenessFailed, 30 * time.Second},
	} {
		if got := ContainerGrace(pod, tc.c, tc.why); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// K1: StopContainer takes whole seconds: no less than two for a container without its stop
// signal, and never less than zero.
func TestTimeoutSeconds(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		left      time.Duration
		signalled bool
		want      int64
	}{
		{30 * time.Second, false, 30}, {2100 * time.Millisecond, false, 3}, {100 * time.Millisecond, false, 2}, {-time.Hour, false, 2},
		{1100 * time.Millisecond, true, 2}, {time.Second, true, 1}, {0, true, 0}, {-time.Hour, true, 0},
	} {
		if got := timeoutSeconds(now.Add(tc.left), now, tc.signalled); got != tc.want {
			t.Errorf("%v left, signalled %v: %d, want %d", tc.left, tc.signalled, got, tc.want)
		}
	}
}

package agenttest

import (
	"fmt"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// Promise is one property of pods that a node agent must provide.
type Promise struct {
	Name string
	// Sentence states the property.
	Sentence string
	// Source is the document that makes the promise.
	Source string
	// Breaks is an issue about a cause that breaks the promise in practice, such as "kubernetes
	// #139670". It may be empty.
	Breaks string
	// Own: podsync makes this promise, and no documentation of Kubernetes or CRI does.
	Own bool
	// Evidence states how the promise is judged, and what is accepted.
	Evidence string

	check func(*history, *verdict)
}

// Promises returns all promises, in a report's order.
func Promises() iter.Seq[Promise] {
	return func(yield func(Promise) bool) {
		for _, p := range promises() {
			if !yield(p) {
				return
			}
		}
	}
}

func promises() []Promise {
	var all []Promise
	for _, part := range [][]Promise{
		containerPromises, onePromises, initPromises, sidecarPromises, stopPromises, deletePromises, sandboxPromises, imagePromises,
		probePromises, restartPromises, endPromises, agentPromises, statusPromises,
	} {
		all = append(all, part...)
	}
	return all
}

// The documents that make the promises.
const (
	docCRI        = "https://github.com/kubernetes/cri-api/blob/master/pkg/apis/runtime/v1/api.proto"
	docPod        = "https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/"
	docLifecycle  = "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/"
	docInit       = "https://kubernetes.io/docs/concepts/workloads/pods/init-containers/"
	docSidecar    = "https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/"
	docSidecarKEP = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/753-sidecar-containers"
	docHooks      = "https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/"
	docImages     = "https://kubernetes.io/docs/concepts/containers/images/"
	docProbes     = "https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/"
	docGC         = "https://kubernetes.io/docs/concepts/architecture/garbage-collection/"
	docStatic     = "https://kubernetes.io/docs/tasks/configure-pod-container/static-pod/"
	docOwn        = "https://github.com/podsync/podsync/blob/main/docs/FAILURES.md"
)

// verdict counts how often a scenario tested a promise, and lists the violations.
type verdict struct {
	h       *history
	judged  int
	broken  []Breach
	figures map[string][]float64
}

// at is a place in a history.
type at struct {
	uid types.UID
	t   time.Time
	// call is the number of the call that breaks the promise, and container the ID of the process,
	// if there is one.
	call      int
	container string
}

func atCall(c call) at {
	return at{uid: types.UID(c.PodUID), t: c.Start, call: c.N}
}

func atStart(p critest.Process) at {
	return at{uid: types.UID(p.PodUID), t: p.Started, container: p.ContainerID}
}

// want records one judgement.
func (v *verdict) want(kept bool, where at, format string, args ...any) {
	v.judged++
	if kept {
		return
	}
	v.broken = append(v.broken, Breach{
		Scenario: v.h.scenario.Name, Seed: v.h.scenario.Seed, Pod: v.h.nameOf(where.uid), At: v.h.since(where.t),
		Why: fmt.Sprintf(format, args...), Story: v.h.story(where),
	})
}

// figure records an amount.
func (v *verdict) figure(name string, n float64) { v.figures[name] = append(v.figures[name], n) }

// took records a duration.
func (v *verdict) took(name string, d time.Duration) { v.figure("seconds "+name, d.Seconds()) }

// since returns the seconds from the beginning to a time.
func (h *history) since(t time.Time) float64 {
	return t.Sub(h.begin).Round(time.Millisecond).Seconds()
}

func (h *history) nameOf(uid types.UID) string {
	if l := h.pods[uid]; l != nil {
		return l.pod().Name
	}
	return string(uid)
}

// clock formats a time for a story.
func (h *history) clock(t time.Time) string { return fmt.Sprintf("%.2f s", h.since(t)) }

package timeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Config is what a Timeline is made of.
type Config struct {
	// NodeName is shown in the title of the page. Default: none is.
	NodeName string
	// MaxEntries is how many entries are kept altogether, about 200 bytes each. Default
	// 30,000.
	MaxEntries int
	// MaxPodEntries is how many are kept of one pod. Default 300.
	MaxPodEntries int
}

// A Timeline remembers what happened to pods. It may be used concurrently.
type Timeline struct {
	config Config
	began  time.Time

	mu      sync.Mutex
	records map[types.UID]*record
	// over are the pods that are, the first that was first.
	over []types.UID
	// entries is how many all records have.
	entries int
}

// New returns an empty Timeline. The error names the invalid field of the Config.
func New(c Config) (*Timeline, error) {
	for _, f := range []struct {
		name  string
		value *int
		def   int
	}{{"MaxEntries", &c.MaxEntries, 30_000}, {"MaxPodEntries", &c.MaxPodEntries, 300}} {
		if *f.value < 0 {
			return nil, fmt.Errorf("timeline: Config.%s is negative: %d", f.name, *f.value)
		}
		*f.value = cmp.Or(*f.value, f.def)
	}
	return &Timeline{config: c, began: time.Now(), records: map[types.UID]*record{}}, nil
}

// A Pod is the history of a pod.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	// Phase is the phase that was reported last, empty if there was none.
	Phase string
	// Finished: the pod has no work left.
	Finished bool
	// Restarts are those of all its containers, as they were reported last.
	Restarts int
	// Dropped is how many entries had to make room for others.
	Dropped int
	// Entries are in the order in which they began.
	Entries []Entry
}

// An Entry is something that took time.
type Entry struct {
	// Container is empty for what concerns the pod as a whole.
	Container string
	Kind      Kind
	// Name describes the entry in a word or two, Reason is its cause or result. Both are truncated
	// to 200 bytes.
	Name, Reason string
	Begin        time.Time
	// End is zero if the entry is in progress.
	End    time.Time
	Failed bool
	// Count is how often it happened in a row, at least 1.
	Count int
}

// Kind is what an entry is about.
type Kind string

// The kinds. The first three are states: of a pod, or container, there is one at a time.
const (
	Phase   Kind = "phase"   // of a pod, its end included
	Run     Kind = "run"     // an instance of a container
	Wait    Kind = "wait"    // a container that does not run, with the reason that is reported
	Sandbox Kind = "sandbox" // its creation
	Volume  Kind = "volume"  // it was made, or could not be
	Pull    Kind = "pull"    // a container has waited for an image
	Start   Kind = "start"   // creation and start of a container
	Hook    Kind = "hook"    // a handler
	Probe   Kind = "probe"   // a probe, for as long as it fails
	Stop    Kind = "stop"    // the stop of a container
	Work    Kind = "work"    // work on the pod, for as long as it fails
)

func (k Kind) state() bool { return k == Phase || k == Run || k == Wait }

// Pods returns a copy of the history, sorted by namespace, name and UID.
func (t *Timeline) Pods() []Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	records := slices.SortedFunc(maps.Values(t.records), func(a, b *record) int {
		return cmp.Or(cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	var pods []Pod
	for _, r := range records {
		pods = append(pods, r.snapshot())
	}
	return pods
}

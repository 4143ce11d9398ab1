package timeline

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Config configures a Timeline.
type Config struct {
	// NodeName is shown in the page's title. Default: none.
	NodeName string
}

// A Timeline records the pod history. Its methods may be called concurrently.
type Timeline struct {
	config Config
	began  time.Time
	// maxEntries limits all entries, about 200 bytes each, and maxPodEntries those of one pod.
	maxEntries, maxPodEntries int

	mu      sync.Mutex
	records map[types.UID]*record
	// over are the finished pods, in the order in which they finished.
	over []types.UID
	// entries counts the entries in all records.
	entries int
}

// New returns an empty Timeline.
func New(c Config) *Timeline {
	return &Timeline{config: c, began: time.Now(), maxEntries: 30_000, maxPodEntries: 300, records: map[types.UID]*record{}}
}

// podHistory is a pod's history.
type podHistory struct {
	Namespace, Name string
	UID             types.UID
	// Phase is the phase that was reported last, empty if there was none.
	Phase string
	// Finished: the pod has no work left.
	Finished bool
	// Restarts counts all container restarts, as reported last.
	Restarts int
	// Dropped counts the entries that the limits have dropped.
	Dropped int
	// Entries are in the order in which they began.
	Entries []entry
}

// entry is an event with a duration.
type entry struct {
	// Container is empty if the entry concerns the whole pod.
	Container string
	Kind      kind
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

// kind is an entry's kind.
type kind string

// The kinds. The first three are states: of a pod, or container, there is one at a time.
const (
	kindPhase   kind = "phase"   // of a pod, its end included
	kindRun     kind = "run"     // a container instance
	kindWait    kind = "wait"    // a container that does not run, with the reason that is reported
	kindSandbox kind = "sandbox" // its creation
	kindVolume  kind = "volume"  // a volume's setup, or its failure
	kindPull    kind = "pull"    // a container has waited for an image
	kindStart   kind = "start"   // a container's creation and start
	kindHook    kind = "hook"    // a handler
	kindProbe   kind = "probe"   // a probe, for as long as it fails
	kindStop    kind = "stop"    // a container's stop
	kindWork    kind = "work"    // work on the pod, for as long as it fails
)

func (k kind) state() bool { return k == kindPhase || k == kindRun || k == kindWait }

// pods returns a copy of the history, sorted by namespace, name and UID.
func (t *Timeline) pods() []podHistory {
	t.mu.Lock()
	defer t.mu.Unlock()
	records := slices.SortedFunc(maps.Values(t.records), func(a, b *record) int {
		return cmp.Or(cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	var pods []podHistory
	for _, r := range records {
		pods = append(pods, r.snapshot())
	}
	return pods
}

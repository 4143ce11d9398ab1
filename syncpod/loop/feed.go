package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod/podref"
	"github.com/podsync/podsync/syncpod/podspec"
	"github.com/podsync/podsync/syncpod/source"
)

// feed is one source with its last snapshot.
type feed struct {
	source.Source
	// The fields below are guarded by feeds.mu.

	// snapshot is the last one delivered, at its time; delivered is zero before the
	// first.
	snapshot  source.Snapshot
	delivered time.Time
	// uids are the UIDs of the pods in the snapshot.
	uids map[types.UID]bool
	// failed is why the source has ended, and since is when it ended.
	failed error
	since  time.Time
	// departed are pods that the source has removed since the last reconciliation, in their last
	// version, which may have a new grace period. They stay here if they return.
	departed map[types.UID]*v1.Pod
	// trust is how far the source is trusted about an earlier agent's pods.
	trust trust
}

// feeds are all sources of a Loop, and the pods they want.
type feeds struct {
	log logr.Logger
	// delivered is called each time a source has delivered.
	delivered func(configsChanged bool)
	// stopUnknown means that doubted sources are trusted, too.
	stopUnknown bool

	mu  sync.Mutex
	all []*feed
}

// errSourceEnded stands for the error from a source that has returned none.
var errSourceEnded = errors.New("it has ended and will deliver nothing more")

// run runs a source until ctx ends. A failure of the source changes nothing for its pods, nor for other
// sources (kubernetes #140257).
func (fs *feeds) run(ctx context.Context, f *feed) {
	err := f.Run(ctx, func(s source.Snapshot) { fs.deliver(f, s) })
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		err = errSourceEnded
	}
	fs.log.Error(err, "source ended", "source", f.Name())
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.failed, f.since = err, time.Now()
}

func (fs *feeds) deliver(f *feed, s source.Snapshot) {
	fs.mu.Lock()
	s = f.computable(s)
	for _, err := range f.newErrors(s) {
		fs.log.Error(err, "error of a source", "source", f.Name())
	}
	f.depart(s)
	f.snapshot, f.delivered = s, time.Now()
	if f.ready() && !s.Inferred {
		f.trust.full = true
	}
	fs.mu.Unlock()
	fs.delivered(s.ConfigsChanged)
}

// computable returns the snapshot without pods whose quantities take hours to compare or print, such as
// 1e1666660. As in a [source.Push], the version before stays if there is one, but with the refused
// version's deletion: the pod must stop in any case.
func (f *feed) computable(s source.Snapshot) source.Snapshot {
	s.Errors, s.Warnings = withoutNil(s.Errors), withoutNil(s.Warnings)
	pods := make([]*v1.Pod, 0, len(s.Pods))
	for _, pod := range s.Pods {
		if err := podspec.ValidateQuantities(pod); err != nil {
			s.Errors = append(slices.Clip(s.Errors), fmt.Errorf("pod %s: %w", podref.Name(pod), err))
			i := slices.IndexFunc(f.snapshot.Pods, func(before *v1.Pod) bool { return before != nil && before.UID == pod.UID })
			if i < 0 {
				continue
			}
			pod = deletedAs(f.snapshot.Pods[i], pod)
		}
		pods = append(pods, pod)
	}
	s.Pods = pods
	return s
}

// withoutNil returns the errors that are not nil.
func withoutNil(errs []error) []error {
	return slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
}

// deletedAs returns a pod with the deletion of another version of it, if that has one.
func deletedAs(pod, version *v1.Pod) *v1.Pod {
	if version.DeletionTimestamp == nil {
		return pod
	}
	copied := *pod // shares the rest
	copied.DeletionTimestamp, copied.DeletionGracePeriodSeconds = version.DeletionTimestamp, version.DeletionGracePeriodSeconds
	return &copied
}

// newErrors returns the errors that the last snapshot did not have.
func (f *feed) newErrors(next source.Snapshot) []error {
	return slices.DeleteFunc(slices.Clone(next.Errors), func(err error) bool {
		return slices.ContainsFunc(f.snapshot.Errors, func(before error) bool { return before.Error() == err.Error() })
	})
}

// depart records which pods are in the next snapshot, and which have been removed from it.
func (f *feed) depart(next source.Snapshot) {
	f.uids = make(map[types.UID]bool, len(next.Pods))
	for _, pod := range next.Pods {
		if pod != nil {
			f.uids[pod.UID] = true
		}
	}
	for _, pod := range f.snapshot.Pods {
		if pod == nil || f.uids[pod.UID] {
			continue
		}
		if f.departed == nil {
			f.departed = map[types.UID]*v1.Pod{}
		}
		f.departed[pod.UID] = pod
	}
}

// ready reports whether the source has delivered a complete snapshot.
func (f *feed) ready() bool { return !f.delivered.IsZero() && !f.snapshot.Incomplete }

// certain reports whether a pod of this source that the last snapshot does not have should stop.
func (f *feed) certain() bool { return f.ready() && f.trust.full }

// A desiredPod is a pod that a source wants.
type desiredPod struct {
	pod    *v1.Pod
	source string
}

// desiredPods are the pods that all sources want at one time.
type desiredPods struct {
	// pods are in the order of the sources, and of their snapshots. sources are their
	// sources' names by UID.
	pods    []desiredPod
	sources map[types.UID]string
	// conflicts are the errors of pods that are left out because another pod has their UID.
	conflicts []error
	// known are the sources whose missing pods should stop: see feed.certain.
	known map[string]bool
	// complete means that all sources are known.
	complete bool
	// doubted are the sources that know none of an earlier agent's pods.
	doubted map[string]bool
	// departed are the last versions of pods that their source has removed. The source may want them again by now. Only
	// takeDesired fills it in, once for each pod.
	departed map[types.UID]desiredPod
}

// desired returns the pods of all sources. A source that has not delivered yet has none.
func (fs *feeds) desired() desiredPods {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.desiredNow()
}

// takeDesired returns the desired pods of all sources, and takes the departed ones from them.
func (fs *feeds) takeDesired() desiredPods {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	d := fs.desiredNow()
	d.departed = map[types.UID]desiredPod{}
	for _, f := range fs.all {
		for uid, pod := range f.departed {
			d.departed[uid] = desiredPod{pod, f.Name()}
		}
		f.departed = nil
	}
	return d
}

// desiredNow must be called with mu held.
func (fs *feeds) desiredNow() desiredPods {
	d := desiredPods{sources: map[types.UID]string{}, known: map[string]bool{}, doubted: map[string]bool{}, complete: true}
	for _, f := range fs.all {
		known := f.certain()
		d.doubted[f.Name()] = f.trust.doubted()
		d.known[f.Name()] = known
		d.complete = d.complete && known
		for _, pod := range f.snapshot.Pods {
			if err := usable(pod, d.sources); err != nil {
				d.conflicts = append(d.conflicts, fmt.Errorf("source %s: %w", f.Name(), err))
				continue
			}
			d.sources[pod.UID] = f.Name()
			d.pods = append(d.pods, desiredPod{pod, f.Name()})
		}
	}
	return d
}

func usable(pod *v1.Pod, from map[types.UID]string) error {
	switch {
	case pod == nil:
		return errors.New("a pod is nil")
	case pod.UID == "":
		return fmt.Errorf("pod %s: metadata.uid is empty", podref.Name(pod))
	case len(pod.UID) > validation.LabelValueMaxLength: // it becomes a label in the runtime
		return fmt.Errorf("pod %s: metadata.uid has %d characters, want at most %d", podref.Name(pod), len(pod.UID), validation.LabelValueMaxLength)
	case from[pod.UID] != "":
		return fmt.Errorf("pod %s: metadata.uid %s is that of a pod of source %s, which counts", podref.Name(pod), pod.UID, from[pod.UID])
	}
	return nil
}

// has reports whether a pod is desired.
func (d desiredPods) has(uid types.UID) bool { return d.sources[uid] != "" }

// wants reports whether a source now wants a pod with that UID.
func (fs *feeds) wants(uid types.UID) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return uid != "" && slices.ContainsFunc(fs.all, func(f *feed) bool { return f.uids[uid] })
}

// unwanted reports whether it is certain that no source wants a pod with that UID.
func (fs *feeds) unwanted(uid types.UID) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return !slices.ContainsFunc(fs.all, func(f *feed) bool { return !f.certain() || f.uids[uid] })
}

// undecided reports whether a pod that only the runtime knows may still be desired: by its source
// or, if its source is unknown or no longer configured, by any source.
func (d desiredPods) undecided(source string) bool {
	if known, ours := d.known[source]; ours {
		return !known
	}
	return !d.complete
}

// trust decides whether an earlier agent's pods are stopped because a source does not list them. A source with a complete list,
// such as an API server, is trusted. A folder is trusted once it has one of the pods, by name: without any, the agent was
// probably started with another folder or another node name.
type trust struct {
	// full means that the decision has been made, in favor of the source.
	full bool
	// left are the earlier agent's pods, nil before the runtime was listed.
	left map[types.UID]types.NamespacedName
	// unknown are the pods' names in doubt, sorted. stopped are those that feeds.stopUnknown stops.
	unknown, stopped []string
}

func (t *trust) doubted() bool { return len(t.unknown) > 0 }

// judge decides on an inferred snapshot with these names. pods are those of the earlier agent, if this is the first
// call, and in any case all pods of the source in the runtime.
func (t *trust) judge(names map[types.NamespacedName]bool, complete bool, pods map[types.UID]types.NamespacedName) {
	if t.left == nil {
		t.left = pods
	}
	t.unknown = nil
	for uid, name := range t.left {
		if names[name] {
			t.unknown, t.full = nil, complete
			return
		}
		if _, exists := pods[uid]; exists {
			t.unknown = append(t.unknown, name.String())
		}
	}
	slices.Sort(t.unknown)
	t.full = complete && !t.doubted()
}

// judge decides which sources are trusted, once the runtime has been listed. It reports whether a doubt has ended.
func (fs *feeds) judge(inRuntime func() []pleg.Pod) (ended bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	configured := map[string]bool{}
	for _, f := range fs.all {
		configured[f.Name()] = true
	}
	var pods []pleg.Pod
	for _, f := range fs.all {
		if f.trust.full || f.delivered.IsZero() || !f.snapshot.Inferred {
			continue
		}
		if pods == nil {
			pods = inRuntime()
		}
		left := map[types.UID]types.NamespacedName{}
		for _, p := range pods {
			if p.Source == f.Name() || !configured[p.Source] {
				left[p.UID] = types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
			}
		}
		before := f.trust.unknown
		f.trust.judge(f.names(), f.ready(), left)
		if fs.stopUnknown {
			f.trust.stopped, f.trust.unknown, f.trust.full = f.trust.unknown, nil, f.ready()
			if f.trust.full && len(f.trust.stopped) > 0 {
				fs.log.Info("stops the pods of an earlier agent, of which the source knows none", "source", f.Name(), "pods", f.trust.stopped)
			}
		}
		ended = ended || len(before) > 0 && !f.trust.doubted()
		if f.trust.doubted() && !slices.Equal(before, f.trust.unknown) {
			fs.log.Info("the source knows no pod of an earlier agent, which stay as they are; Config.StopUnknown stops them", "source", f.Name(), "pods", f.trust.unknown)
		}
	}
	return ended
}

// unknownBeside returns the pods in doubt because of which no new pod of this pod's source starts.
func (fs *feeds) unknownBeside(uid types.UID) []string {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.all {
		if f.uids[uid] {
			return f.trust.unknown
		}
	}
	return nil
}

// names returns the pods' names in the last snapshot.
func (f *feed) names() map[types.NamespacedName]bool {
	names := map[types.NamespacedName]bool{}
	for _, pod := range f.snapshot.Pods {
		if pod != nil {
			names[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = true
		}
	}
	return names
}

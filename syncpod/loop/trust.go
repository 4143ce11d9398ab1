package loop

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/pleg"
)

// trust decides whether an earlier agent's pods are stopped because a source does not list them. A source with a complete list,
// such as an API server, is trusted. A folder is trusted once it has one of the pods, by name: without any, the agent was
// probably started with another folder or another node name.
type trust struct {
	// full means that the decision has been made, in favor of the source.
	full bool
	// left are the earlier agent's pods, nil before the runtime was listed.
	left map[types.UID]types.NamespacedName
	// unknown are the pods' names in doubt, sorted.
	unknown []string
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
		if f.trust.full || f.delivered.IsZero() || fs.stopUnknown || !f.snapshot.Inferred {
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
		ended = ended || len(before) > 0 && !f.trust.doubted()
		if f.trust.doubted() && !slices.Equal(before, f.trust.unknown) {
			fs.log.Info("the source knows no pod of an earlier agent, which keep running; Config.StopUnknown stops them", "source", f.Name(), "pods", f.trust.unknown)
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

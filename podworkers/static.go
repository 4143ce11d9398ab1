package podworkers

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// fullName returns the name that is unique among the pods of a node's sources.
func fullName(u Update) string {
	if u.Pod != nil {
		return u.Pod.Name + "_" + u.Pod.Namespace
	}
	return u.RuntimePod.Name + "_" + u.RuntimePod.Namespace
}

// statics lets static pods of one full name run one at a time, in the order in
// which they were first heard of: what a pod is called at a source on the node may be
// given to another one at any time (kubernetes #104743). The zero statics has none.
type statics struct {
	// running is the pod that has its turn, by full name.
	running map[string]types.UID
	// waiting are those that follow, in order.
	waiting map[string][]types.UID
	// stopping are pods that the runtime has and that have to stop before the next
	// has its turn.
	stopping map[string][]types.UID
}

// queue puts a pod at the end of the line for its full name, unless it is
// already in it or has its turn.
func (s *statics) queue(fullName string, uid types.UID) {
	if s.running[fullName] == uid || slices.Contains(s.waiting[fullName], uid) {
		return
	}
	if s.waiting == nil {
		s.waiting = map[string][]types.UID{}
	}
	s.waiting[fullName] = append(s.waiting[fullName], uid)
}

// block keeps a full name from being given to a pod until this one, which the
// runtime has and which is to stop, has ended.
func (s *statics) block(fullName string, uid types.UID) {
	if slices.Contains(s.stopping[fullName], uid) {
		return
	}
	if s.stopping == nil {
		s.stopping = map[string][]types.UID{}
	}
	s.stopping[fullName] = append(s.stopping[fullName], uid)
}

// start gives a pod its turn if it is the next to have it, and reports whether
// it has it. Those before it that do not want theirs any more lose it.
func (s *statics) start(fullName string, uid types.UID, wants func(types.UID) bool) bool {
	if running, taken := s.running[fullName]; taken {
		return running == uid
	}
	if s.next(fullName, wants) != uid {
		return false
	}
	remove(s.waiting, fullName, uid)
	if s.running == nil {
		s.running = map[string]types.UID{}
	}
	s.running[fullName] = uid
	return true
}

// before returns the pod that has to end, or to begin, before this one has its turn: empty if
// it has its turn already, or is not in line.
func (s *statics) before(fullName string, uid types.UID, wants func(types.UID) bool) types.UID {
	if !slices.Contains(s.waiting[fullName], uid) {
		return ""
	}
	if running, taken := s.running[fullName]; taken {
		return running
	}
	if stopping := s.stopping[fullName]; len(stopping) > 0 {
		return stopping[0]
	}
	if next := s.next(fullName, wants); next != uid {
		return next
	}
	return ""
}

// next returns the first pod in line that wants its turn, if its name is free of
// pods that have to stop; empty if there is none.
func (s *statics) next(fullName string, wants func(types.UID) bool) types.UID {
	if len(s.stopping[fullName]) > 0 {
		return ""
	}
	line := s.waiting[fullName]
	i := slices.IndexFunc(line, wants)
	if i < 0 {
		return ""
	}
	return line[i]
}

// end releases the pod's claim on its full name and returns the pod that may start next.
func (s *statics) end(fullName string, uid types.UID, wants func(types.UID) bool) []types.UID {
	remove(s.waiting, fullName, uid)
	remove(s.stopping, fullName, uid)
	if s.running[fullName] == uid {
		delete(s.running, fullName)
	}
	if _, taken := s.running[fullName]; taken {
		return nil
	}
	if next := s.next(fullName, wants); next != "" {
		return []types.UID{next}
	}
	return nil
}

func remove(lines map[string][]types.UID, fullName string, uid types.UID) {
	line := slices.DeleteFunc(lines[fullName], func(other types.UID) bool { return other == uid })
	if len(line) == 0 {
		delete(lines, fullName)
		return
	}
	lines[fullName] = line
}

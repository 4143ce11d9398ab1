package podworkers

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// fullName returns the name that is unique among a node's source pods.
func fullName(u Update) string {
	if u.Pod != nil {
		return u.Pod.Name + "_" + u.Pod.Namespace
	}
	return u.RuntimePod.Name + "_" + u.RuntimePod.Namespace
}

// statics lets static pods of one full name run one after the other, ordered by their first
// updates: a source on the node may give a pod's name to another pod at any time (kubernetes
// #104743). The zero value has no pods.
type statics struct {
	// running is the pod that holds each full name.
	running map[string]types.UID
	// waiting is the queue for each full name.
	waiting map[string][]types.UID
	// stopping are the pods whose containers must stop before the next pod may start.
	stopping map[string][]types.UID
}

// queue enqueues a pod for its full name, unless it waits in the queue or holds the name.
func (s *statics) queue(fullName string, uid types.UID) {
	if s.running[fullName] == uid || slices.Contains(s.waiting[fullName], uid) {
		return
	}
	if s.waiting == nil {
		s.waiting = map[string][]types.UID{}
	}
	s.waiting[fullName] = append(s.waiting[fullName], uid)
}

// block keeps a full name from other pods until this pod, whose containers must stop, has ended.
func (s *statics) block(fullName string, uid types.UID) {
	if slices.Contains(s.stopping[fullName], uid) {
		return
	}
	if s.stopping == nil {
		s.stopping = map[string][]types.UID{}
	}
	s.stopping[fullName] = append(s.stopping[fullName], uid)
}

// start gives the full name to a pod if the pod is next in the queue, and reports whether the pod holds
// the name. It skips pods that no longer want the name.
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

// before returns the pod that must end or start before this one may start. It is empty if the pod holds
// the name, or is not in the queue.
func (s *statics) before(fullName string, uid types.UID, wants func(types.UID) bool) types.UID {
	if !slices.Contains(s.waiting[fullName], uid) {
		return ""
	}
	if running, taken := s.running[fullName]; taken {
		return running
	}
	if stopping := s.stopping[fullName]; slices.Contains(stopping, uid) {
		return "" // it stops, and waits for none
	} else if len(stopping) > 0 {
		return stopping[0]
	}
	if next := s.next(fullName, wants); next != uid {
		return next
	}
	return ""
}

// next returns the first pod in the queue that wants the name. It is empty if there is none, or while
// pods with that name must stop.
func (s *statics) next(fullName string, wants func(types.UID) bool) types.UID {
	if len(s.stopping[fullName]) > 0 {
		return ""
	}
	queue := s.waiting[fullName]
	i := slices.IndexFunc(queue, wants)
	if i < 0 {
		return ""
	}
	return queue[i]
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

func remove(queues map[string][]types.UID, fullName string, uid types.UID) {
	queue := slices.DeleteFunc(queues[fullName], func(other types.UID) bool { return other == uid })
	if len(queue) == 0 {
		delete(queues, fullName)
		return
	}
	queues[fullName] = queue
}

package critest

import (
	"maps"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A subject is a call's object, according to its request and to what the runtime has recorded of the
// ID.
type subject struct {
	namespace, pod, uid string
	sandboxID           string
	container           string // name
	containerID         string
	attempt             uint32 // of the container, or else of the sandbox
	image               string
	// noted is the number of IDs that existed when the subject was recorded, or its ID was removed.
	noted int
}

// subjectOf returns a request's subject.
func (r *Runtime) subjectOf(req any) subject {
	switch q := req.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		m := q.GetConfig().GetMetadata()
		return subject{namespace: m.GetNamespace(), pod: m.GetName(), uid: m.GetUid(), attempt: m.GetAttempt()}
	case *runtimeapi.CreateContainerRequest:
		s := r.remembered(q.GetPodSandboxId())
		m := q.GetConfig().GetMetadata()
		s.sandboxID = q.GetPodSandboxId()
		s.container, s.attempt, s.image = m.GetName(), m.GetAttempt(), q.GetConfig().GetImage().GetImage()
		return s
	case *runtimeapi.PullImageRequest:
		m := q.GetSandboxConfig().GetMetadata()
		return subject{namespace: m.GetNamespace(), pod: m.GetName(), uid: m.GetUid(), image: q.GetImage().GetImage()}
	case interface{ GetImage() *runtimeapi.ImageSpec }:
		return subject{image: q.GetImage().GetImage()}
	case interface{ GetContainerId() string }:
		s := r.remembered(q.GetContainerId())
		s.containerID = q.GetContainerId()
		return s
	case interface{ GetPodSandboxId() string }:
		s := r.remembered(q.GetPodSandboxId())
		s.sandboxID = q.GetPodSandboxId()
		return s
	case *runtimeapi.ListPodSandboxRequest:
		return r.remembered(q.GetFilter().GetId())
	case *runtimeapi.ListContainersRequest:
		if id := q.GetFilter().GetId(); id != "" {
			return r.remembered(id)
		}
		return r.remembered(q.GetFilter().GetPodSandboxId())
	}
	return subject{}
}

// remember records the subject of an ID. With a Config.JournalLimit it drops the subjects of IDs that
// were removed before the last JournalLimit IDs were created. It must be called with mu held.
func (r *Runtime) remember(id string, s subject) {
	s.noted = r.made
	r.subjects[id] = s
	limit := r.cfg.JournalLimit
	if limit == 0 || len(r.subjects) <= len(r.sandboxes)+len(r.containers)+2*limit {
		return
	}
	maps.DeleteFunc(r.subjects, func(id string, s subject) bool {
		return r.sandboxes[id] == nil && r.containers[id] == nil && s.noted+limit < r.made
	})
}

// gone records that an ID was removed. It must be called with mu held.
func (r *Runtime) gone(id string) {
	if s, known := r.subjects[id]; known {
		s.noted = r.made
		r.subjects[id] = s
	}
}

// remembered returns the subject of an ID, even after its removal.
func (r *Runtime) remembered(id string) subject {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.subjects[id]
}

package critest

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func sandboxName(m *runtimeapi.PodSandboxMetadata) string {
	return strings.Join([]string{m.GetName(), m.GetNamespace(), m.GetUid(), fmt.Sprint(m.GetAttempt())}, "_")
}

func containerName(c *runtimeapi.ContainerMetadata, m *runtimeapi.PodSandboxMetadata) string {
	return strings.Join([]string{c.GetName(), m.GetName(), m.GetNamespace(), m.GetUid(), fmt.Sprint(c.GetAttempt())}, "_")
}

// reserve takes a name for an ID. existing is the ID to answer with instead,
// if names are returned and it is complete. It must be called with mu held.
func (r *Runtime) reserve(kind, name, id string) (existing string, _ error) {
	holder, taken := r.names[name]
	if !taken {
		r.names[name] = id
		return "", nil
	}
	if r.cfg.Like != CRIO {
		return "", status.Errorf(r.cfg.Like.nameTaken(), "failed to reserve %s name %q: name %q is reserved for %q", kind, name, name, holder)
	}
	if r.sandboxes[holder] == nil && r.containers[holder] == nil {
		return "", status.Errorf(codes.Unknown, "error reserving %s name %s for id %s: name is reserved", kind, name, id)
	}
	return holder, nil
}

// release gives back the name of an ID. It must be called with mu held.
func (r *Runtime) release(name, id string) {
	if r.names[name] == id {
		delete(r.names, name)
	}
}

// HoldName keeps a name reserved for an ID that nobody ever sees, as a
// runtime does that lost track of a creation. The name is a sandbox's
// "pod_namespace_uid_attempt" or a container's "container_pod_namespace_uid_attempt".
// It ends with a Restart or with the function that HoldName returns.
func (r *Runtime) HoldName(name string) (free func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.newID()
	if _, taken := r.names[name]; !taken {
		r.names[name] = id
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.release(name, id)
	}
}

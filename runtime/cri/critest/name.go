package critest

import (
	"context"
	"fmt"
	"strings"
	"time"

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

// A claim is a reservation's result: the caller has the name now, or another object has it or is
// being created with it.
type claim struct {
	existing string // the ID to return instead
	pending  bool   // the other object is being created, or was lost
}

// reserve reserves a name for an ID. It must be called with mu held.
func (r *Runtime) reserve(kind, name, id string) (claim, error) {
	holder, taken := r.names[name]
	switch {
	case !taken:
		r.names[name] = id
		r.pending[name] = true
		return claim{}, nil
	case r.cfg.Like != CRIO:
		return claim{}, status.Errorf(r.cfg.Like.nameTaken(), "failed to reserve %s name %q: name %q is reserved for %q", kind, name, name, holder)
	case r.pending[name]:
		return claim{pending: true}, nil
	}
	existing := r.claimed(holder)
	return claim{existing: existing, pending: existing == ""}, nil
}

// claimed makes an object visible that was created for a caller that had disconnected, now that it is
// requested again. It requires mu to be held.
func (r *Runtime) claimed(id string) string {
	if sb := r.sandboxes[id]; sb != nil {
		sb.unclaimed = false
		return id
	}
	if c := r.containers[id]; c != nil {
		c.unclaimed = false
		return id
	}
	return ""
}

// isUnclaimed must be called with mu held.
func (r *Runtime) isUnclaimed(id string) bool {
	sb, c := r.sandboxes[id], r.containers[id]
	return sb != nil && sb.unclaimed || c != nil && c.unclaimed
}

// stall is how long CRI-O blocks a caller without a deadline.
const stall = 4 * time.Minute

// await returns the existing ID if the name is taken, and "" if the caller may use the name. A request
// for an object in creation blocks until its caller's deadline, whatever happens to the object, as in
// CRI-O, which slows its callers down this way. They get the ID with the next request.
func (c claim) await(ctx context.Context, kind, name string) (existing string, _ error) {
	if !c.pending {
		return c.existing, nil
	}
	timer := time.NewTimer(stall)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return "", status.FromContextError(ctx.Err()).Err()
	case <-timer.C:
		return "", status.Errorf(codes.Unknown, "kubelet may be retrying requests that are timing out in CRI-O due to system load: "+
			"waited too long for request to timeout or %s %s to be created: name is reserved", kind, name)
	}
}

// settle ends a reservation: the ID keeps the name if the object was created.
func (r *Runtime) settle(name, id string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[name] != id {
		return // the runtime has restarted meanwhile
	}
	if err != nil {
		delete(r.names, name)
	}
	delete(r.pending, name)
}

// release releases the name of an ID. It must be called with mu held.
func (r *Runtime) release(name, id string) {
	if r.names[name] == id {
		delete(r.names, name)
	}
}

// HoldName reserves a name for an ID without an object, like a runtime that lost track of a
// creation. The name is a sandbox's "pod_namespace_uid_attempt" or a container's
// "container_pod_namespace_uid_attempt". A Restart or the returned function ends it.
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

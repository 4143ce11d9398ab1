package critest

import (
	"context"
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

// A claim is the outcome of asking for a name: it is the caller's now, or
// another one's who has it or is about to.
type claim struct {
	existing string        // the ID to answer with instead
	pending  chan struct{} // closed when the other one is made, or has failed
}

// reserve takes a name for an ID. It must be called with mu held.
func (r *Runtime) reserve(kind, name, id string) (claim, error) {
	holder, taken := r.names[name]
	switch {
	case !taken:
		r.names[name] = id
		r.pending[name] = make(chan struct{})
		return claim{}, nil
	case r.cfg.Like != CRIO:
		return claim{}, status.Errorf(r.cfg.Like.nameTaken(), "failed to reserve %s name %q: name %q is reserved for %q", kind, name, name, holder)
	case r.pending[name] != nil:
		return claim{pending: r.pending[name]}, nil
	}
	if existing := r.claimed(holder); existing != "" {
		return claim{existing: existing}, nil
	}
	return claim{}, errNameReserved(kind, name)
}

func errNameReserved(kind, name string) error {
	return status.Errorf(codes.Unknown, "error reserving %s name %s: name is reserved", kind, name)
}

// claimed shows what was made for a caller who had gone, now that it is asked
// for again. It must be called with mu held.
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

// await returns the ID to answer with if a name is another one's, and none if it is
// the caller's. A request for what is being made waits for it, as long as its caller
// does: that is how CRI-O treats it.
func (r *Runtime) await(ctx context.Context, kind, name string, c claim) (existing string, _ error) {
	if c.pending == nil {
		return c.existing, nil
	}
	select {
	case <-c.pending:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return "", err // it is shown to no caller who has gone
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if existing := r.claimed(r.names[name]); existing != "" {
		return existing, nil
	}
	return "", errNameReserved(kind, name)
}

// settle ends what reserve began: the name stays with the ID if it was made.
func (r *Runtime) settle(name, id string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[name] != id {
		return // the runtime has restarted meanwhile
	}
	if err != nil {
		delete(r.names, name)
	}
	close(r.pending[name])
	delete(r.pending, name)
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

package critest

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
)

var errNoID = errors.New("no such container, sandbox or image")

// EditContainer changes a container's reported status: state, times, exit code, reason and message.
// edit modifies a copy; changes of other fields are ignored. The process is not affected, and its exit
// overwrites the change. The runtime sends no event.
func (r *Runtime) EditContainer(id string, edit func(*runtimeapi.ContainerStatus)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil || edit == nil {
		return fmt.Errorf("critest: container %q: %w, or no edit", id, errNoID)
	}
	st := c.status()
	edit(st)
	c.state, c.createdAt, c.startedAt, c.finishedAt = st.State, st.CreatedAt, st.StartedAt, st.FinishedAt
	c.exitCode, c.reason, c.message = st.ExitCode, st.Reason, st.Message
	return nil
}

// EditSandbox changes a sandbox's reported status: state, time of creation and addresses. edit
// modifies a copy. The sandbox's containers are not affected, and the runtime sends no event.
func (r *Runtime) EditSandbox(id string, edit func(*runtimeapi.PodSandboxStatus)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	sb := r.sandboxes[id]
	if sb == nil || edit == nil {
		return fmt.Errorf("critest: sandbox %q: %w, or no edit", id, errNoID)
	}
	st := sb.status()
	had := proto.CloneOf(st.GetNetwork())
	edit(st)
	sb.state, sb.createdAt = st.State, st.CreatedAt
	if proto.Equal(had, st.GetNetwork()) {
		return nil
	}
	var ips []string
	for _, ip := range append([]*runtimeapi.PodIP{{Ip: st.GetNetwork().GetIp()}}, st.GetNetwork().GetAdditionalIps()...) {
		if ip.GetIp() != "" {
			ips = append(ips, ip.GetIp())
		}
	}
	r.setIPs(sb, ips)
	sb.ipsFrom = time.Time{}
	return nil
}

// Hide hides a container or sandbox in a view. Other views still show it. The returned function shows
// it again.
func (r *Runtime) Hide(id string, from faults.View) (show func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hidden[id] |= from
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hidden[id] &^= from
	}
}

// Remove removes a container, a sandbox with its contents, or an image, as an administrator does behind
// the agent's back. It takes an ID, or an image's name. Processes are killed and events are sent; the
// journal has no call. Remove waits for a container that ignores SIGKILL.
func (r *Runtime) Remove(id string) error {
	s := service{Runtime: r}
	if c := r.container(id); c != nil {
		return s.removeContainer(r.life, c)
	}
	if r.sandbox(id) != nil {
		_, err := s.RemovePodSandbox(r.life, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.images.remove(id) {
		return fmt.Errorf("critest: %q: %w", id, errNoID)
	}
	return nil
}

// SetIgnoreSignals changes which signals a running container ignores. To set this from the beginning,
// inject a Fault into its CreateContainer.
func (r *Runtime) SetIgnoreSignals(id string, s faults.IgnoreSignals) error {
	r.mu.Lock()
	c := r.containers[id]
	if c == nil {
		r.mu.Unlock()
		return fmt.Errorf("critest: container %q: %w", id, errNoID)
	}
	c.ignores = s
	late := c.unkilled && !s.Kill
	c.unkilled = c.unkilled && s.Kill
	p := c.process
	r.mu.Unlock()
	if late && p != nil {
		p.Signal(sh.SIGKILL)
	}
	return nil
}

package critest

import (
	"context"
	"fmt"
	"path"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
)

// startError is the exit code in a container's status if its process could not be created, with the
// reason. Both are containerd's.
const (
	startErrorCode   = 128
	startErrorReason = "StartError"
)

func (s service) StartContainer(ctx context.Context, req *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	c := s.container(req.GetContainerId())
	if c == nil {
		return nil, errNoContainer(req.GetContainerId())
	}
	if err := s.setStarting(c); err != nil {
		return nil, err
	}
	err := s.startProcess(ctx, c)
	if err != nil {
		_ = c.log.close() // nothing was written
	}
	s.mu.Lock()
	c.starting = false
	if err != nil {
		c.state = runtimeapi.ContainerState_CONTAINER_EXITED
		c.finishedAt, c.exitCode = time.Now().UnixNano(), startErrorCode
		c.reason, c.message = startErrorReason, status.Convert(err).Message()
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return &runtimeapi.StartContainerResponse{}, nil
}

func (s service) setStarting(c *container) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.state != runtimeapi.ContainerState_CONTAINER_CREATED:
		return status.Errorf(codes.Unknown, "failed to set starting state for container %q: container is in %s state", c.id, c.state)
	case c.removing:
		return status.Errorf(codes.Unknown, "failed to set starting state for container %q: container is in removing state, can't be started", c.id)
	case c.starting:
		return status.Errorf(codes.Unknown, "failed to set starting state for container %q: container is already in starting state", c.id)
	}
	c.starting = true
	return nil
}

func (s service) startProcess(ctx context.Context, c *container) error {
	if err := midway(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.log.open(); err != nil {
		return status.Errorf(codes.Unknown, "failed to create containerd task: failed to create container loggers: %v", err)
	}
	p, err := s.newProcess(c)
	if err != nil {
		return err
	}
	if p.IsServer() {
		what := "the program"
		if args, own := s.command(c); !own {
			what = path.Base(args[0])
		}
		fmt.Fprintf(c.log.stream("stderr"), "critest: %s of %s is a server: it answers on all ports until it is stopped\n", what, c.image.Name)
	}
	s.mu.Lock()
	if !c.sandbox.ready() {
		s.mu.Unlock()
		return status.Errorf(codes.Unknown, "sandbox container %q is not running", c.sandbox.id)
	}
	c.process, c.running = p, true
	if p.IsServer() { // a server accepts connections before StartContainer returns
		c.sandbox.servers++
	}
	s.began(c)
	c.state, c.startedAt = runtimeapi.ContainerState_CONTAINER_RUNNING, time.Now().UnixNano()
	s.mu.Unlock()
	s.emit(c.id, c.sandbox.id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	if err := s.run(c, p); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}

// run starts to run a process. Close waits for its end.
func (r *Runtime) run(c *container, p *sh.Process) error {
	if !p.IsServer() {
		return r.start(func() { r.recordExit(c, p.Run()) })
	}
	done, err := r.register()
	if err != nil {
		return err
	}
	p.Serve(func(code int) {
		defer done()
		r.recordExit(c, code)
	})
	return nil
}

// recordExit records the end of a container's process.
func (r *Runtime) recordExit(c *container, code int) {
	_ = c.log.close() // the exit counts even if the log cannot be closed
	r.mu.Lock()
	c.running = false
	if c.process.IsServer() {
		c.sandbox.servers--
	}
	c.state = runtimeapi.ContainerState_CONTAINER_EXITED
	c.finishedAt, c.exitCode = time.Now().UnixNano(), int32(code)
	c.reason = "Completed"
	if code != 0 {
		c.reason = "Error"
	}
	if e := c.ended; e != nil {
		c.exitCode, c.message = e.Code, e.Message
		if e.Reason != "" {
			c.reason = e.Reason
		}
	}
	c.ran.Ended, c.ran.ExitCode = time.Now(), c.exitCode
	known := r.containers[c.id] == c && !c.unseen
	r.mu.Unlock()
	if known {
		r.emit(c.id, c.sandbox.id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	}
	close(c.exited)
}

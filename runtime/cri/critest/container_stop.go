package critest

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
)

// The status of a container whose exit the runtime has not observed.
const (
	unknownExitCode   = 255
	unknownExitReason = "Unknown"
)

// notStartedCode is CRI-O's exit code of a container that was stopped before it was started.
const notStartedCode = 2

// StopContainer sends the stop signal, waits for the timeout and kills the process. It succeeds for a
// container that was not started or has exited, and in most models for an unknown one.
func (s service) StopContainer(ctx context.Context, req *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	c := s.container(req.GetContainerId())
	switch {
	case c == nil && s.cfg.Like == Containerd16:
		return nil, errNoContainer(req.GetContainerId())
	case c == nil:
		return &runtimeapi.StopContainerResponse{}, nil
	}
	if s.cfg.Like == CRIO {
		s.endAgain(c)
	}
	if err := s.stopContainer(ctx, c, seconds(req.GetTimeout())); err != nil {
		return nil, err
	}
	return &runtimeapi.StopContainerResponse{}, nil
}

// seconds converts a number of seconds to a duration, without overflow.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, int64(faults.Never/time.Second))) * time.Second
}

func (s service) stopContainer(ctx context.Context, c *container, timeout time.Duration) error {
	s.mu.Lock()
	stoppable := c.state == runtimeapi.ContainerState_CONTAINER_RUNNING || c.state == runtimeapi.ContainerState_CONTAINER_UNKNOWN
	if stoppable && !c.running {
		c.lose()
		stoppable = false
	}
	if s.cfg.Like == CRIO {
		c.endIdle()
	}
	first := stoppable && timeout > 0 && !c.signalled
	joins := c.ignores.FirstStopOnly && c.signalled
	c.signalled = c.signalled || first
	s.mu.Unlock()
	if !stoppable {
		return nil
	}
	if first {
		s.terminate(c)
	}
	if timeout > 0 || joins {
		ended, err := waitExit(ctx, c, timeout, joins)
		if ended || err != nil {
			return err
		}
	}
	s.killContainer(c)
	_, err := waitExit(ctx, c, 0, true)
	return err
}

// endIdle stops a container that was never started, as CRI-O does. It must be called with mu held.
func (c *container) endIdle() {
	if c.state == runtimeapi.ContainerState_CONTAINER_CREATED && !c.starting {
		c.state, c.exitCode, c.reason = runtimeapi.ContainerState_CONTAINER_EXITED, notStartedCode, "Error"
		c.finishedAt = time.Now().UnixNano()
	}
}

// endAgain stops a container that has exited, as CRI-O does: it changes the time of the exit.
func (r *Runtime) endAgain(c *container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.state == runtimeapi.ContainerState_CONTAINER_EXITED {
		c.finishedAt = time.Now().UnixNano()
	}
}

// lose ends a container of unknown state that has no process. It must be called with mu held.
func (c *container) lose() {
	c.state = runtimeapi.ContainerState_CONTAINER_EXITED
	c.finishedAt, c.exitCode, c.reason = time.Now().UnixNano(), unknownExitCode, unknownExitReason
}

func (r *Runtime) terminate(c *container) {
	r.mu.Lock()
	deaf := c.ignores.Term
	r.mu.Unlock()
	if !deaf {
		c.process.Signal(linuxSignal(c.stopSignal()))
	}
}

func (r *Runtime) killContainer(c *container) {
	r.mu.Lock()
	c.unkilled = c.ignores.Kill
	deaf := c.unkilled
	r.mu.Unlock()
	if !deaf {
		c.process.Signal(sh.SIGKILL)
	}
}

// waitExit waits for the exit until the timeout has passed, or without limit if endless is set.
func waitExit(ctx context.Context, c *container, timeout time.Duration, endless bool) (ended bool, _ error) {
	var expired <-chan time.Time
	if !endless {
		t := time.NewTimer(timeout)
		defer t.Stop()
		expired = t.C
	}
	select {
	case <-c.exited:
		return true, nil
	case <-expired:
		return false, nil
	case <-ctx.Done():
		return false, status.FromContextError(ctx.Err()).Err()
	}
}

// linuxSignal returns a signal's number, and that of TERM for a real-time signal.
func linuxSignal(s runtimeapi.Signal) sh.Signal {
	if n, ok := sh.ParseSignal(strings.TrimPrefix(s.String(), "SIGNAL_")); ok {
		return n
	}
	return sh.SIGTERM
}

// errNoContainer is the error of calls that require the container.
func errNoContainer(id string) error {
	return status.Errorf(codes.NotFound, "an error occurred when try to find container %q: not found", id)
}

package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
)

// outcome is a check's result. The zero outcome is success.
type outcome struct {
	failure string // the failure, for people
	warning string // a warning about a success, for people
	unknown bool   // the check has no result
	errored string // why it has none, for people
	cause   error  // of unknown
}

// result converts the outcome to a result in package actions.
func (o outcome) result() actions.ProbeResult {
	switch {
	case o.unknown:
		return actions.ProbeUnknown
	case o.failure != "":
		return actions.ProbeFailure
	}
	return actions.ProbeSuccess
}

func failed(format string, args ...any) outcome {
	return outcome{failure: fmt.Sprintf(format, args...)}
}

// invalid is the outcome of a probe that cannot be carried out, for example because its port is the name of no port of the
// container. It says nothing about the container, so no container is killed for it (kubernetes #139283).
func invalid(err error) outcome {
	return outcome{unknown: true, cause: err, errored: err.Error()}
}

// outcome checks once.
func (c *Checker) outcome(ctx context.Context, r Request) outcome {
	timeout := timeoutOf(r.Probe)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	o := c.ask(ctx, r)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return failed("no answer within %v", timeout)
	}
	return o
}

func (c *Checker) ask(ctx context.Context, r Request) outcome {
	switch h := r.Probe.ProbeHandler; {
	case h.Exec != nil:
		return c.exec(ctx, r)
	case h.HTTPGet != nil:
		return c.httpGet(ctx, r)
	case h.TCPSocket != nil:
		return c.tcpSocket(ctx, r)
	case h.GRPC != nil:
		return c.grpc(ctx, r)
	}
	return invalid(errors.New("it has none of exec, httpGet, tcpSocket and grpc"))
}

func (c *Checker) exec(ctx context.Context, r Request) outcome {
	_, err := c.hooks.Run(ctx, r.hook(&v1.LifecycleHandler{Exec: r.Probe.Exec}))
	var hookErr *handler.Error
	switch {
	case err == nil:
		return outcome{}
	case errors.Is(err, handler.ErrExitCode) && errors.As(err, &hookErr):
		return failed("the command ended with exit code %d", hookErr.ExitCode)
	case errors.Is(err, cri.ErrExhausted):
		// This counts as a failure, because the container could cause it: without a result, the container
		// would switch its liveness probe off.
		return failed("the command printed more than the agent accepts, or the runtime is short of something")
	case errors.Is(err, cri.ErrDeadline):
		// The runtime has the same timeout, and may report it before the context ends.
		return failed("no answer within %v", timeoutOf(r.Probe))
	case ctx.Err() != nil:
		return failed("%v", errors.Unwrap(err))
	case errors.Is(err, handler.ErrInvalid):
		return invalid(errors.Unwrap(err))
	}
	if errors.Is(err, cri.ErrUnavailable) { // the node's conditions report it, once for all pods
		return outcome{unknown: true, cause: errors.Unwrap(err)}
	}
	return outcome{unknown: true, cause: errors.Unwrap(err), errored: fmt.Sprintf("the command could not be run: %v", errors.Unwrap(err))}
}

func (c *Checker) httpGet(ctx context.Context, r Request) outcome {
	result, err := c.hooks.Run(ctx, r.hook(&v1.LifecycleHandler{HTTPGet: r.Probe.HTTPGet}))
	if errors.Is(err, handler.ErrInvalid) {
		return invalid(errors.Unwrap(err))
	}
	if err != nil {
		return failed("%v", errors.Unwrap(err))
	}
	if result.StatusCode < http.StatusOK || result.StatusCode >= http.StatusBadRequest {
		return failed("the answer was HTTP %d", result.StatusCode)
	}
	if result.OtherHost {
		return outcome{warning: "Probe terminated redirects, Response body: " + beginning(result.Output)}
	}
	return outcome{}
}

// maxBody limits how much from a redirect's body in a message, in bytes: an event's message
// is limited to 1024.
const maxBody = 512

// beginning returns a body's beginning as text.
func beginning(body []byte) string {
	return foreign.CutText(strings.ToValidUTF8(string(body[:min(len(body), maxBody)]), ""), maxBody)
}

// hook returns the probe as a handler, which runs in the same way.
func (r Request) hook(h *v1.LifecycleHandler) handler.Request {
	return handler.Request{Handler: h, Container: r.Container, ContainerID: r.ContainerID, Ports: r.Ports, PodIP: r.PodIP}
}

func (c *Checker) tcpSocket(ctx context.Context, r Request) outcome {
	host := r.Probe.TCPSocket.Host
	if host == "" {
		host = r.PodIP
	}
	port, err := handler.Port("tcpSocket.port", r.Probe.TCPSocket.Port, r.Ports)
	if err != nil {
		return invalid(err)
	}
	if host == "" {
		return failed("%v", handler.ErrNoAddress)
	}
	conn, err := c.dial(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return failed("%v", err)
	}
	_ = conn.Close() // the connection was opened; nothing else is checked
	return outcome{}
}

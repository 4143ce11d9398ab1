package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
)

// target is the container and the probe of one check.
type target struct {
	container *v1.Container
	id        string // of the container, in the runtime's form
	ip        string
	probe     *v1.Probe
	timeout   time.Duration
}

// outcome is the result of a check. The zero outcome is success.
type outcome struct {
	failure string // the failure, for people
	warning string // a warning about a success, for people
	unknown bool   // the check has no result
	errored string // why it has none, for people
}

// result converts the outcome to a result of package actions.
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

// outcome checks a target once.
func (p *Manager) outcome(ctx context.Context, t target) outcome {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	o := p.ask(ctx, t)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return failed("no answer within %v", t.timeout)
	}
	return o
}

func (p *Manager) ask(ctx context.Context, t target) outcome {
	switch h := t.probe.ProbeHandler; {
	case h.Exec != nil:
		return p.exec(ctx, t)
	case h.HTTPGet != nil:
		return p.httpGet(ctx, t)
	case h.TCPSocket != nil:
		return p.tcpSocket(ctx, t)
	case h.GRPC != nil:
		return p.grpc(ctx, t)
	}
	return failed("it has none of exec, httpGet, tcpSocket and grpc")
}

func (p *Manager) exec(ctx context.Context, t target) outcome {
	_, err := p.hooks.Run(ctx, t.hook(&v1.LifecycleHandler{Exec: t.probe.Exec}))
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
	case ctx.Err() != nil, errors.Is(err, handler.ErrInvalid):
		return failed("%v", errors.Unwrap(err))
	}
	if errors.Is(err, cri.ErrUnavailable) { // the node's conditions report it, once for all pods
		return outcome{unknown: true}
	}
	return outcome{unknown: true, errored: fmt.Sprintf("the command could not be run: %v", errors.Unwrap(err))}
}

func (p *Manager) httpGet(ctx context.Context, t target) outcome {
	result, err := p.hooks.Run(ctx, t.hook(&v1.LifecycleHandler{HTTPGet: t.probe.HTTPGet}))
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

// maxBody limits the part of a redirect's body in a message, in bytes: the message of an event is
// limited to 1024.
const maxBody = 512

// beginning returns the beginning of a body as text.
func beginning(body []byte) string {
	return strings.ToValidUTF8(string(body[:min(len(body), maxBody)]), "")
}

// hook returns the probe as a handler, which runs in the same way.
func (t target) hook(h *v1.LifecycleHandler) handler.Request {
	return handler.Request{Handler: h, Container: t.container.Name, ContainerID: t.id, Ports: t.container.Ports, PodIP: t.ip}
}

func (p *Manager) tcpSocket(ctx context.Context, t target) outcome {
	host := t.probe.TCPSocket.Host
	if host == "" {
		host = t.ip
	}
	port, err := handler.Port("tcpSocket.port", t.probe.TCPSocket.Port, t.container.Ports)
	if err != nil {
		return failed("%v", err)
	}
	if host == "" {
		return failed("%v", handler.ErrNoAddress)
	}
	conn, err := p.config.Dial(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return failed("%v", err)
	}
	_ = conn.Close() // the connection was opened; nothing else is checked
	return outcome{}
}

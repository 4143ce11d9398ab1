package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
)

// DefaultUserAgent is kubelet v1.36's User-Agent for probes.
const DefaultUserAgent = "kube-probe/1.36"

// CheckerConfig configures a Checker. The zero value checks httpGet, tcpSocket and grpc over the node's network.
type CheckerConfig struct {
	// Exec runs exec probes' commands. Default: none; an exec probe then has no result, and the error cri.ErrUnimplemented.
	Exec cri.Execer
	// Dial connects to the probed endpoint. It must return when its context ends. Default: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// UserAgent is the User-Agent for httpGet and grpc. Default:
	// DefaultUserAgent.
	UserAgent string
}

// A Checker runs single probe checks. It has no state: its methods may be called concurrently.
type Checker struct {
	hooks     *handler.Runner
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	userAgent string
}

// NewChecker returns a Checker. It starts nothing.
func NewChecker(c CheckerConfig) (*Checker, error) {
	c.UserAgent = cmp.Or(c.UserAgent, DefaultUserAgent)
	if c.Exec == nil {
		c.Exec = missingExec{}
	}
	if c.Dial == nil {
		// Without a concurrent second address, no dial outlives the call.
		c.Dial = (&net.Dialer{FallbackDelay: -1}).DialContext
	}
	hooks, err := handler.New(handler.Config{Exec: c.Exec, Dial: c.Dial, UserAgent: c.UserAgent})
	if err != nil {
		return nil, err
	}
	return &Checker{hooks: hooks, dial: c.Dial, userAgent: c.UserAgent}, nil
}

// missingExec is the Execer in a Checker that has none.
type missingExec struct{}

func (missingExec) ExecSync(context.Context, *runtimeapi.ExecSyncRequest, ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
	return nil, &cri.Error{Class: cri.ErrUnimplemented, Err: errors.New("the Checker has no Exec")}
}

// Request is one check.
type Request struct {
	// Probe is the probe. Required. Among its fields the handler and timeoutSeconds count, which is 1 if it is not
	// set.
	Probe *v1.Probe
	// PodIP is the default host: the pod's first address, or the node's for a pod on the node's network.
	PodIP string
	// Ports are the container's ports, for a probe that refers to one by name.
	Ports []v1.ContainerPort
	// ContainerID is the runtime's ID for the container. An exec requires it.
	ContainerID string
	// Container is the container's name, for an Execer's errors.
	Container string
}

// Result is one check's result, without thresholds.
type Result struct {
	// Outcome is ProbeSuccess, ProbeFailure or ProbeUnknown.
	Outcome actions.ProbeResult
	// Message is a failure's reason, or a warning about a success: a redirect to another host with its body's
	// beginning. It contains nothing else from a response or an output.
	Message string
}

// Probe checks once, within the probe's timeout. A timeout is a failure. An error means that the check has no result
// (ProbeUnknown): the command of an exec could not be run, or ctx has ended before the check. A kubelet leaves the thresholds
// unchanged then.
func (c *Checker) Probe(ctx context.Context, r Request) (Result, error) {
	if r.Probe == nil {
		return Result{Outcome: actions.ProbeUnknown}, errors.New("probe: Request.Probe is required")
	}
	o := c.outcome(ctx, r)
	if ctx.Err() != nil {
		return Result{Outcome: actions.ProbeUnknown}, context.Cause(ctx)
	}
	if o.unknown {
		return Result{Outcome: actions.ProbeUnknown}, fmt.Errorf("the probe could not be run: %w", o.cause)
	}
	return Result{Outcome: o.result(), Message: cmp.Or(o.failure, o.warning)}, nil
}

package handler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri"
)

// The defaults of a Config.
const (
	// DefaultUserAgent is the User-Agent of kubelet v1.36 for handlers.
	DefaultUserAgent = "kube-lifecycle/1.36"
	// DefaultMaxOutput is the number of bytes of a response that a kubelet reads.
	DefaultMaxOutput = 10 << 10
)

// Config configures a Runner.
type Config struct {
	// Exec runs commands in containers, required.
	Exec cri.Execer
	// UserAgent is the User-Agent header of an httpGet that does not set one. "" means
	// DefaultUserAgent.
	UserAgent string
	// MaxOutput limits the bytes kept of a response or of a command's output. 0 means
	// DefaultMaxOutput.
	MaxOutput int
	// Dial connects to the endpoint of an httpGet, for agents that do not reach their pods through
	// the node's network. It must return when its context ends. Nil means a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// A Runner runs handlers. It has no state: its methods may be called concurrently.
type Runner struct {
	exec      cri.Execer
	userAgent string
	maxOutput int
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
}

// New returns a Runner. It starts nothing.
func New(c Config) (*Runner, error) {
	switch {
	case c.Exec == nil:
		return nil, errors.New("handler: Config.Exec is required")
	case c.MaxOutput < 0:
		return nil, fmt.Errorf("handler: Config.MaxOutput is %d, it must not be negative", c.MaxOutput)
	}
	r := &Runner{exec: c.Exec, userAgent: c.UserAgent, maxOutput: c.MaxOutput, dial: c.Dial}
	if r.userAgent == "" {
		r.userAgent = DefaultUserAgent
	}
	if r.maxOutput == 0 {
		r.maxOutput = DefaultMaxOutput
	}
	if r.dial == nil {
		// Without a concurrent second address, no dial outlives the call.
		r.dial = (&net.Dialer{FallbackDelay: -1}).DialContext
	}
	return r, nil
}

// Request is a handler and its container. Run does not modify it.
type Request struct {
	// Handler is the handler to run, required. Exactly one of its fields must be set.
	Handler *v1.LifecycleHandler
	// Container is the container's name, for errors.
	Container string
	// ContainerID is the runtime's ID of the container, required by an exec.
	ContainerID string
	// Ports are the container's ports, for an httpGet that refers to one by name.
	Ports []v1.ContainerPort
	// PodIP is the default host of an httpGet: the pod's first address, or the node's for a pod on
	// the node's network.
	PodIP string
	// HTTPFallback repeats an https request in plain HTTP if the endpoint speaks plain HTTP, as a
	// kubelet does for lifecycle handlers and not for probes.
	HTTPFallback bool
}

// Result is a handler's output. It may contain secrets.
type Result struct {
	// Output is the end of an exec's output, stdout followed by stderr, or the beginning of an
	// httpGet's response body.
	Output []byte
	// Truncated means that there was more.
	Truncated bool
	// StatusCode is the last response's status to an httpGet, 0 if there was none.
	StatusCode int
	// OtherHost means that the response is a redirect to another host, which was not followed.
	OtherHost bool
	// HTTPFallback means that an https request was repeated in plain HTTP. If the second request
	// succeeds, a kubelet records the event LifecycleHTTPFallback, as package syncpod does.
	HTTPFallback bool
	// Detail is the runtime's message about a failed exec. Some runtimes repeat the command's
	// output in it.
	Detail string
}

// Run runs a handler and waits until it ends or ctx ends. An error is an [*Error]. The Result is
// valid also with an error.
func (r *Runner) Run(ctx context.Context, req Request) (Result, error) {
	action, err := actionOf(req.Handler)
	if err != nil {
		return Result{}, req.failed(action, err)
	}
	if err := ctx.Err(); err != nil {
		return Result{}, req.failed(action, err)
	}
	result, err := r.run(ctx, action, req)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // the cause of any other error
	}
	return result, req.failed(action, err)
}

func (r *Runner) run(ctx context.Context, action Action, req Request) (Result, error) {
	switch action {
	case Exec:
		return r.runExec(ctx, req)
	case HTTPGet:
		return r.runHTTPGet(ctx, req)
	}
	return Result{}, sleep(ctx, req.Handler.Sleep)
}

func sleep(ctx context.Context, s *v1.SleepAction) error {
	if s.Seconds < 0 {
		return invalid("sleep.seconds is %d, it must not be negative", s.Seconds)
	}
	t := time.NewTimer(seconds(s.Seconds))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// seconds returns n seconds, limited to the maximum of a Duration.
func seconds(n int64) time.Duration {
	const longest = time.Duration(1<<63 - 1)
	return time.Duration(min(n, int64(longest/time.Second))) * time.Second
}

package hook

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
	// DefaultUserAgent is how a kubelet of v1.36 introduces itself to handlers.
	DefaultUserAgent = "kube-lifecycle/1.36"
	// DefaultMaxOutput is how much of an answer a kubelet reads.
	DefaultMaxOutput = 10 << 10
)

// Config is what a Runner is made of.
type Config struct {
	// Exec runs commands in containers, required.
	Exec cri.Execer
	// UserAgent is sent with an httpGet that has no User-Agent header of its own.
	// "" means DefaultUserAgent.
	UserAgent string
	// MaxOutput is how many bytes of an answer or of a command's output are kept. 0
	// means DefaultMaxOutput.
	MaxOutput int
	// Dial connects to the endpoint of an httpGet, for agents that reach their pods
	// another way than through the node's network. It must return when its context
	// ends. Nil means a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// A Runner runs handlers. It holds no state: its methods may be called
// concurrently.
type Runner struct {
	exec      cri.Execer
	userAgent string
	maxOutput int
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
}

// New makes a Runner. It starts nothing.
func New(c Config) (*Runner, error) {
	switch {
	case c.Exec == nil:
		return nil, errors.New("hook: Config.Exec is required")
	case c.MaxOutput < 0:
		return nil, fmt.Errorf("hook: Config.MaxOutput is %d, it must not be negative", c.MaxOutput)
	}
	r := &Runner{exec: c.Exec, userAgent: c.UserAgent, maxOutput: c.MaxOutput, dial: c.Dial}
	if r.userAgent == "" {
		r.userAgent = DefaultUserAgent
	}
	if r.maxOutput == 0 {
		r.maxOutput = DefaultMaxOutput
	}
	if r.dial == nil {
		// Without a second address tried side by side, a dial is over when it returns.
		r.dial = (&net.Dialer{FallbackDelay: -1}).DialContext
	}
	return r, nil
}

// Request is a handler and the container it is of. It is not written to.
type Request struct {
	// Handler is what to do, required. Exactly one of its fields must be set.
	Handler *v1.LifecycleHandler
	// Container is the container's name, for errors.
	Container string
	// ContainerID is the runtime's ID of the container, required by an exec.
	ContainerID string
	// Ports are the container's ports, by whose names an httpGet may call its port.
	Ports []v1.ContainerPort
	// PodIP is the host of an httpGet that names none: the pod's first address, or
	// the node's for a pod in the node's network.
	PodIP string
	// HTTPFallback has an https endpoint that speaks plain HTTP asked again in plain HTTP, as a
	// kubelet does for lifecycle handlers and not for probes.
	HTTPFallback bool
}

// Result is what a handler left behind. It may hold secrets.
type Result struct {
	// Output is what an exec printed, to stdout and then to stderr, of which the
	// end is kept, or the body that answered an httpGet, of which the beginning is.
	Output []byte
	// Truncated says that there was more.
	Truncated bool
	// StatusCode is the last answer to an httpGet. 0 if there was none.
	StatusCode int
	// OtherHost says that this answer is a redirect to another host, where nobody was
	// asked.
	OtherHost bool
	// HTTPFallback says that an https endpoint was asked again in plain HTTP. If the second request
	// succeeds, a kubelet records the event LifecycleHTTPFallback, as package syncpod does.
	HTTPFallback bool
	// Detail is the runtime's own text about an exec that it could not carry out.
	// Some runtimes repeat the command's output there.
	Detail string
}

// Run runs a handler and waits for its end or that of ctx. An error is an
// [*Error]. The Result is good with an error, too.
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
		err = ctx.Err() // whatever broke, broke because of it
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

// seconds is n seconds, or as many as a Duration holds.
func seconds(n int64) time.Duration {
	const longest = time.Duration(1<<63 - 1)
	return time.Duration(min(n, int64(longest/time.Second))) * time.Second
}

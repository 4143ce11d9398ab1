package cri

import (
	"context"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RunPodSandbox calls RunPodSandbox. If CRI-O has not responded within 10 s, the request is
// repeated concurrently, and again later, because CRI-O may block a request for a reserved name;
// the first success is returned, or else the response to the first request. This requires a client
// from Dial, which knows the runtime's name.
func (c *Client) RunPodSandbox(ctx context.Context, in *runtimeapi.RunPodSandboxRequest, opts ...grpc.CallOption) (*runtimeapi.RunPodSandboxResponse, error) {
	ask := func(ctx context.Context) (*runtimeapi.RunPodSandboxResponse, error) {
		return c.RuntimeServiceClient.RunPodSandbox(ctx, in, opts...)
	}
	if c.stalls() {
		return insist(ctx, ask)
	}
	return ask(ctx)
}

// CreateContainer calls CreateContainer. If CRI-O has not responded within 10 s, the request is
// repeated concurrently, and again later, because CRI-O may block a request for a reserved name;
// the first success is returned, or else the response to the first request. This requires a client
// from Dial, which knows the runtime's name.
func (c *Client) CreateContainer(ctx context.Context, in *runtimeapi.CreateContainerRequest, opts ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error) {
	ask := func(ctx context.Context) (*runtimeapi.CreateContainerResponse, error) {
		return c.RuntimeServiceClient.CreateContainer(ctx, in, opts...)
	}
	if c.stalls() {
		return insist(ctx, ask)
	}
	return ask(ctx)
}

// stalls reports whether the runtime blocks a request for an object that another request is
// creating.
func (c *Client) stalls() bool { return c.RuntimeName() == "cri-o" }

// firstInsistence is the time until the first repeated request.
const firstInsistence = 10 * time.Second

// insist calls ask, and repeats it concurrently with growing pauses, until a request has succeeded or
// the first has failed.
//
// CRI-O does not reject a request for an object that another request is creating; it blocks until
// the caller's deadline, even if the other caller was killed. But it responds to a request that
// arrives after the creation. Cancelling and repeating is no solution: a creation ends with its
// request, so it would abort a creation that takes long for a good reason. Two requests with one name
// and attempt do not create two objects.
func insist[R any](ctx context.Context, ask func(context.Context) (*R, error)) (*R, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		r   *R
		err error
	}
	first, later := make(chan answer, 1), make(chan *R)
	go func() {
		r, err := ask(ctx)
		first <- answer{r, err}
	}()
	pause := firstInsistence
	again := time.NewTimer(pause)
	defer again.Stop()
	for {
		select {
		case a := <-first:
			return a.r, a.err
		case r := <-later:
			return r, nil
		case <-again.C:
			pause *= 2
			again.Reset(pause)
			go func() {
				if r, err := ask(ctx); err == nil {
					select {
					case later <- r:
					case <-ctx.Done():
					}
				}
			}()
		}
	}
}

package cri

import (
	"context"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RunPodSandbox is the call of that name. A request that CRI-O has not answered within
// 10 s is made again beside it, and later again, because CRI-O may hold one for a name that
// is reserved; the first success counts, or else the answer to the first request. Only for a
// client of Dial, which knows the runtime's name.
func (c *Client) RunPodSandbox(ctx context.Context, in *runtimeapi.RunPodSandboxRequest, opts ...grpc.CallOption) (*runtimeapi.RunPodSandboxResponse, error) {
	ask := func(ctx context.Context) (*runtimeapi.RunPodSandboxResponse, error) {
		return c.RuntimeServiceClient.RunPodSandbox(ctx, in, opts...)
	}
	if c.stalls() {
		return insist(ctx, ask)
	}
	return ask(ctx)
}

// CreateContainer is the call of that name. A request that CRI-O has not answered within
// 10 s is made again beside it, and later again, because CRI-O may hold one for a name that
// is reserved; the first success counts, or else the answer to the first request. Only for a
// client of Dial, which knows the runtime's name.
func (c *Client) CreateContainer(ctx context.Context, in *runtimeapi.CreateContainerRequest, opts ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error) {
	ask := func(ctx context.Context) (*runtimeapi.CreateContainerResponse, error) {
		return c.RuntimeServiceClient.CreateContainer(ctx, in, opts...)
	}
	if c.stalls() {
		return insist(ctx, ask)
	}
	return ask(ctx)
}

// stalls reports whether the runtime does not answer a request for what it is
// making for another.
func (c *Client) stalls() bool { return c.RuntimeName() == "cri-o" }

// firstInsistence is after how long insist asks for the second time.
const firstInsistence = 10 * time.Second

// insist asks, and asks again beside that after a while and then less and less
// often, until one of the requests has succeeded or the first has failed.
//
// CRI-O holds a request for what it is making already for another one, such as an
// agent that was killed since, until its deadline, whatever becomes of it; but it
// answers one that comes when that is made. To give up and ask again would end what
// takes long for good reason, because that ends with its request. Two requests for
// one name and attempt do not make two sandboxes or containers.
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

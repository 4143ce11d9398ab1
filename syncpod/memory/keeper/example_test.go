package keeper_test

import (
	"context"
	"fmt"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/memory/keeper"
)

// A container has exited, and the runtime has lost it. The decision knows it nevertheless.
func Example() {
	k, err := keeper.New(keeper.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, p := context.Background(), k.Pod("u1")
	p.Observe(ctx, seen(instance("c0", runtime.ContainerExited, 0)))
	complete := p.See(ctx, pod(), seen())
	plan := actions.Compute(p.Facts(pod(), complete, nil, began.Add(1e12)))
	fmt.Println(plan.Start[0].Container, plan.Start[0].Attempt)
	// Output: container "app" 1
}

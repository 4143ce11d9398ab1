package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/podsync/podsync/modules/cluster/internal/fleet"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// churn makes containers crash and powers nodes off until ctx ends.
func churn(ctx context.Context, o options, f *fleet.Fleet, out io.Writer) {
	var off sync.WaitGroup
	defer off.Wait()
	random := rand.New(rand.NewPCG(o.seed, 30))
	nodes := f.Nodes()
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		for _, n := range nodes {
			if o.crashes > 0 {
				crash(random, n, o.crashes/3600)
			}
			if random.Float64() < o.powerFailures/3600 {
				fmt.Fprintf(out, "%s loses its power\n", n.Name)
				off.Go(func() { powerCycle(ctx, n, o.downtime, out) })
			}
		}
	}
}

// crash ends each container of a node with the given probability.
func crash(random *rand.Rand, n *fleet.Node, probability float64) {
	for _, p := range n.Runtime.Processes() {
		if p.Ended.IsZero() && random.Float64() < probability {
			_ = n.Runtime.ExitContainer(p.ContainerID, critest.Exit{Code: 1}) // it may have exited
		}
	}
}

func powerCycle(ctx context.Context, n *fleet.Node, downtime time.Duration, out io.Writer) {
	err := n.PowerOff()
	select {
	case <-ctx.Done():
		return
	case <-time.After(downtime):
	}
	if err == nil {
		err = n.Start()
	}
	if err != nil {
		fmt.Fprintf(out, "%s: %v\n", n.Name, err)
	}
}

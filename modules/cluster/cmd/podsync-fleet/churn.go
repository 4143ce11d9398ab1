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

// A churn makes containers crash, and nodes fail, from a seed.
type churn struct {
	options
	fleet  *fleet.Fleet
	out    io.Writer
	random *rand.Rand
	// failing are the failures in progress.
	failing sync.WaitGroup

	// lost are the nodes that are or were replaced. Only run's goroutine uses it.
	lost map[*fleet.Node]bool
	mu   sync.Mutex
	// named is the number of names that nodes have had.
	named int
}

func newChurn(o options, f *fleet.Fleet, out io.Writer) *churn {
	return &churn{options: o, fleet: f, out: out, random: rand.New(rand.NewPCG(o.seed, 30)), lost: map[*fleet.Node]bool{}, named: o.nodes}
}

// run makes failures until ctx ends.
func (c *churn) run(ctx context.Context) {
	defer c.failing.Wait()
	var third <-chan time.Time
	if c.replaceThird > 0 {
		third = time.After(c.replaceThird)
	}
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-third:
			c.loseThird(ctx)
		case <-tick.C:
			for _, n := range c.fleet.Nodes() {
				c.fail(ctx, n)
			}
		}
	}
}

// fail makes one node's failures in one second.
func (c *churn) fail(ctx context.Context, n *fleet.Node) {
	if c.crashes > 0 {
		crash(c.random, n, c.crashes/3600)
	}
	happens := func(anHour float64) bool { return c.random.Float64() < anHour/3600 }
	switch {
	case happens(c.replacements):
		c.lose(ctx, n)
	case happens(c.powerFailures):
		fmt.Fprintf(c.out, "%s loses its power\n", n.Name)
		c.failing.Go(func() { c.powerCycle(ctx, n) })
	case happens(c.partitions):
		fmt.Fprintf(c.out, "%s loses its connection\n", n.Name)
		n.Partition(c.partition, []fleet.Loss{fleet.Refused, fleet.Dropped}[c.random.IntN(2)])
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

// loseThird replaces a third of the nodes.
func (c *churn) loseThird(ctx context.Context) {
	nodes := c.fleet.Nodes()
	c.random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	nodes = nodes[:len(nodes)/3]
	fmt.Fprintf(c.out, "%d nodes are lost\n", len(nodes))
	for _, n := range nodes {
		c.lose(ctx, n)
	}
}

func (c *churn) lose(ctx context.Context, n *fleet.Node) {
	if !c.lost[n] {
		c.lost[n] = true
		c.failing.Go(func() { c.replace(ctx, n) })
	}
}

func (c *churn) powerCycle(ctx context.Context, n *fleet.Node) {
	err := n.PowerOff()
	if !c.wait(ctx) {
		return
	}
	if err == nil && c.fleet.Node(n.Name) == n { // it may have been replaced
		err = n.Start()
	}
	c.report(n, err)
}

// replace removes a machine for good, and adds one of the same shape by a new name.
func (c *churn) replace(ctx context.Context, n *fleet.Node) {
	err := c.fleet.Remove(ctx, n)
	if !c.wait(ctx) {
		return
	}
	c.report(n, err) // the machine is off, even if its Node could not be deleted
	spec := n.Spec
	c.mu.Lock()
	spec.Name = numbered(c.named)
	c.named++
	c.mu.Unlock()
	fmt.Fprintf(c.out, "%s is lost, and is replaced by %s\n", n.Name, spec.Name)
	next, err := c.fleet.Add(spec)
	if err == nil {
		err = next.Start()
	}
	c.report(n, err)
}

// wait waits for the downtime. It returns false if ctx ends first.
func (c *churn) wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(c.downtime):
		return true
	}
}

func (c *churn) report(n *fleet.Node, err error) {
	if err != nil {
		fmt.Fprintf(c.out, "%s: %v\n", n.Name, err)
	}
}

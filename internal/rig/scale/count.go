package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod"
)

// progress is how often it is said how far things are.
const progress = 2 * time.Second

// count is a sink that counts the pods that run.
type count struct {
	pods int
	all  chan struct{} // closed when all run

	mu      sync.Mutex
	running map[types.UID]bool
}

var _ syncpod.StatusSink = (*count)(nil)

func newCount(pods int) *count {
	return &count{pods: pods, all: make(chan struct{}), running: make(map[types.UID]bool, pods)}
}

func (c *count) SetPodStatus(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if status.Phase == v1.PodRunning && !c.running[pod.UID] {
		c.running[pod.UID] = true
		if len(c.running) == c.pods {
			close(c.all)
		}
	}
	return nil
}

func (c *count) now() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.running)
}

// await waits until all pods run, and prints their number meanwhile. If hopeless returns an error, the pods will never
// all run, and await returns that error.
func (c *count) await(ctx context.Context, what string, hopeless func() error) error {
	ticks := time.NewTicker(progress)
	defer ticks.Stop()
	for {
		select {
		case <-c.all:
			return nil
		case <-ticks.C:
			if err := hopeless(); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%d of %d pods %s\n", c.now(), c.pods, what)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

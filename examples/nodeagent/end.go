package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/syncpod/loop"
)

// drain stops all pods, or as many as stop before it is told again to end.
func drain(agent *loop.Loop, s *screen) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		time.Sleep(time.Second) // the first time may come as two signals: timeout(1) sends them
		again, done := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer done()
		<-again.Done()
		stop()
	}()
	s.say("Stopping all pods. Ctrl-C again leaves those that have not stopped by then.")
	if err := agent.Drain(ctx); err != nil {
		s.say("Not all pods have stopped: %v", err)
	}
}

// atEnd says what becomes of the pods when the agent is told to end.
func (o options) atEnd() string {
	if o.drain {
		return "stops the pods, and then the agent"
	}
	return "ends the agent and leaves the pods"
}

// farewell says what has become of them.
func (o options) farewell(running int) string {
	switch {
	case running == 0:
		return "No pod runs any more."
	case o.runtime == memory:
		return fmt.Sprintf("Detached from %s. The runtime in memory ends with the agent.", plural(running, "running pod"))
	}
	return fmt.Sprintf("Detached from %s. The next start takes over what runs.", plural(running, "running pod"))
}

// running counts the pods that have not ended.
func running(agent *loop.Loop) int {
	count := 0
	for _, pod := range agent.Pods() {
		if pod.Phase < podworkers.Terminated {
			count++
		}
	}
	return count
}

package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/loop"
)

// drain stops all pods. A second signal ends the wait.
func drain(agent *agent.Agent, s *screen) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		time.Sleep(time.Second) // timeout(1) sends the first signal twice
		again, done := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer done()
		<-again.Done()
		stop()
	}()
	s.say("Stopping all pods. Press Ctrl-C again to end the agent before all pods have stopped.")
	if err := agent.Drain(ctx); err != nil {
		s.say("Not all pods have stopped: %v", unprefixed(err, "podworkers: "))
	}
}

// atEnd describes what happens to the pods when the agent ends.
func (o options) atEnd() string {
	switch {
	case o.drain:
		return "stops the pods, and then the agent"
	case o.runtime == memory:
		return "ends the agent, and with it the runtime in memory and its pods"
	}
	return "ends the agent and leaves the pods"
}

// inspection describes how to find out about a pod.
func (o options) inspection() string {
	switch o.serve {
	case "":
		return "Start the agent with -serve, then: nodeagent explain POD"
	case "unix://" + defaultServe:
		return "nodeagent explain POD"
	}
	return "nodeagent explain -serve " + o.serve + " POD"
}

// farewell describes the pods' state after the agent: how many run, and how many wait for a container.
func (o options) farewell(running, waiting int) string {
	var pods []string
	if running > 0 {
		pods = append(pods, plural(running, "running pod"))
	}
	if waiting > 0 {
		pods = append(pods, plural(waiting, "pod")+" without a running container")
	}
	then := "The next agent takes over the running containers."
	switch {
	case len(pods) == 0:
		return "No pod of the folder runs."
	case o.runtime == memory:
		then = "The runtime in memory ends with the agent."
	}
	return "Detached from " + strings.Join(pods, " and ") + ". " + then
}

// running counts the unfinished pods with a running container, and those with a container that
// waits to be created or restarted.
func running(pods []loop.Pod) (running, waiting int) {
	for _, pod := range pods {
		s := pod.Status
		runs := slices.ContainsFunc(slices.Concat(s.InitContainerStatuses, s.ContainerStatuses), func(c v1.ContainerStatus) bool {
			return c.State.Running != nil
		})
		switch {
		case pod.Phase.HasStopped():
		case runs:
			running++
		default:
			waiting++
		}
	}
	return running, waiting
}

// Command nodeagent runs the pods whose manifests are in a folder, on containerd,
// CRI-O or a runtime in memory.
//
//	go run ./examples/nodeagent                     # sample pods, nothing needed
//	go run ./examples/nodeagent -manifests DIR      # pods of yours, in memory
//	nodeagent -manifests DIR -runtime unix:///run/containerd/containerd.sock
//
// Change, add and remove manifests while it runs. Ctrl-C detaches: the pods keep
// running, and the next start takes them over. With -drain it stops them first.
//
// Agents that share a runtime need an -owner and a -root each: what belongs to an
// owner is one agent's, and what it does not know of that it stops.
//
// It exits with 0 when it was told to stop, 2 if it was started wrongly, 3 if it
// may not use the runtime's socket or one of its folders, 4 if there is no runtime,
// 5 if that does not speak CRI v1, and 1 for all else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
)

// gcPercent has an agent that has settled keep little memory that it does not use:
// 2.5 MB less than Go's default, for 30 pods. GOGC takes precedence.
const gcPercent = 40

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		err = run(ctx, o, os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "nodeagent:", err)
		os.Exit(exitCode(err))
	}
}

// run runs the agent until ctx ends, and then detaches or drains.
func run(ctx context.Context, o options, stdout *os.File) error {
	defer o.discard()
	manifests, err := source.NewFolder(source.FolderConfig{Path: o.manifests, NodeName: o.node})
	if err != nil {
		return &failure{exitUsage, seeHelp, err}
	}
	s := newScreen(stdout, o.output)
	client, disconnect, err := connect(ctx, o, s.say)
	if err != nil && ctx.Err() != nil {
		return nil // told to end before there was anything to do
	}
	if err != nil {
		return err
	}
	defer disconnect()
	cgroups, err := o.podCgroups(ctx, client)
	if err != nil {
		return err
	}
	agent, err := loop.New(loop.Config{
		Client:   client,
		Root:     o.root,
		NodeName: o.node,
		Sources:  []source.Source{manifests},
		Sync: syncpod.Config{
			Owner:      cri.Owner{Name: o.owner},
			Sink:       s,
			Events:     s,
			Node:       syncpod.Node{LogsRoot: o.podLogs},
			Extensions: syncpod.Extensions{Cgroups: cgroups},
			Objects:    syncpod.Objects{Sources: env.Sources{ConfigMaps: manifests, Secrets: manifests}},
		},
	})
	if err != nil {
		return err
	}
	s.say("Pods of %s on %s %s. Ctrl-C %s.", o.manifests, client.RuntimeName(), client.RuntimeVersion(), o.atEnd())
	s.say("The name of the node ends their names, as those of all static pods: web is web-%s here.", o.node)
	if o.runtime == memory {
		s.say("No process runs: containers are acted out in memory. Volumes are real, and a hostPath is one of this machine.")
	}
	defer func() { s.close("%s", o.farewell(running(agent.Pods()))) }()
	return serve(ctx, agent, o.drain, s)
}

// serve runs the loop until ctx has ended, and until the pods are drained if they
// are to be.
func serve(ctx context.Context, agent *loop.Loop, drained bool, s *screen) error {
	running, detach := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer detach()
	ended := make(chan error, 1)
	wg.Go(func() { ended <- agent.Run(running) })
	wg.Go(func() { follow(running, agent, s) })
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	if drained {
		drain(agent, s)
	}
	detach()
	return <-ended
}

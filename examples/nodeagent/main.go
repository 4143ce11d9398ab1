// Command nodeagent runs the pods whose manifests are in a folder, on containerd, CRI-O or a runtime in memory.
//
//	go run ./examples/nodeagent                     # sample pods, nothing needed
//	go run ./examples/nodeagent -manifests DIR      # pods of yours, in memory
//	nodeagent -manifests DIR -runtime unix:///run/containerd/containerd.sock
//
// With -serve unix:///run/podsync.sock other processes inspect it, as kubectl does a cluster:
//
//	export PODSYNC_SERVE=unix:///run/podsync.sock
//	nodeagent get [-o json|yaml] [POD]
//	nodeagent explain POD
//	nodeagent plan [-o json] FOLDER|FILE|-
//	nodeagent replay FOLDER [POD]
//	nodeagent logs [-f] [-p] [-tail N] [-since 5m] [-timestamps] POD [-c CONTAINER]
//	nodeagent exec [-it] POD [-c CONTAINER] -- COMMAND
//	nodeagent attach [-it] POD [-c CONTAINER]
//	nodeagent port-forward POD [LOCAL:]PORT...
//	nodeagent top [POD]
//	nodeagent drain [-timeout 5m]
//	nodeagent timeline [-o html|trace] [POD] > pods.html
//
// POD is NAME or NAMESPACE/NAME. PODSYNC_SERVE or the flag -serve of each command names the agent. With -serve
// https://:10250 and -tls-cert, -tls-key and -tls-ca the agent serves on an address, for clients with a certificate of
// that authority: the same commands with flags of the same names, and all other clients of a kubelet.
//
// You can change, add and remove manifests while the agent runs. Ctrl-C detaches: the pods keep running, and the next
// agent adopts them. With -drain the agent stops them first; nodeagent drain
// stops them and ends a running agent.
//
// Each agent that shares a runtime with others needs its own -owner and -root: an agent stops all pods in the runtime
// that have its owner and are not in its manifests.
//
// It exits with 0 when it was stopped, 2 for invalid arguments, 3 without permission for the runtime's socket or one of
// its folders, 4 if there is no runtime, 5 if the runtime does not support CRI v1, and 1 for all other errors. nodeagent
// exec exits with the code of its command. nodeagent plan exits with 0 if nothing would change, 2 if something would, and 1
// for all errors.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"google.golang.org/grpc"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/source"
	"github.com/podsync/podsync/syncpod/volume"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := start(ctx, os.Args[1:])
	if errors.Is(err, errChanges) {
		os.Exit(exitChanges)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "nodeagent:", foreign.Text(err.Error()))
		os.Exit(exitCode(err))
	}
}

// start runs the agent, or a command that inspects a running one.
func start(ctx context.Context, args []string) error {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return runCommand(ctx, args, console{os.Stdin, os.Stdout, os.Stderr})
	}
	o, err := parse(args, os.Stderr)
	if err != nil {
		return err
	}
	if o.version {
		fmt.Println(version())
		return nil
	}
	return run(ctx, o, os.Stdout)
}

// run runs the agent until ctx ends, and then detaches or drains.
func run(ctx context.Context, o options, stdout *os.File) error {
	defer o.discard()
	manifests, err := source.NewFolder(source.FolderConfig{Path: o.manifests, NodeName: o.node})
	if err != nil {
		return &failure{exitUsage, seeHelp, err}
	}
	s := newScreen(stdout, o.output)
	s.folder, s.inspect = o.manifests, o.inspection()
	counts := newMetrics()
	conn, err := connect(ctx, o, s.say, grpc.WithChainUnaryInterceptor(counts.call))
	if err != nil && ctx.Err() != nil {
		return nil // interrupted before the start
	}
	if err != nil {
		return err
	}
	defer conn.end()
	o.share(s)
	o.warnOfSharedLogs(ctx, conn.Client, s)
	cgroups, err := o.podCgroups(ctx, conn.Client)
	if err != nil {
		return err
	}
	logPolicy, err := o.logs.policy()
	if err != nil {
		return err
	}
	config := agent.Config{
		Client:   conn.Client,
		Root:     o.root,
		NodeName: o.node,
		Sources:  []source.Source{manifests}, StopUnknown: o.stopUnknown,
		LogPolicy: logPolicy,
		// The runtime in memory runs no processes and uses no resources of the node.
		NoEviction: o.runtime == memory, NoImageGC: o.runtime == memory, NoOOMEvents: o.runtime == memory,
		Sync: syncpod.Config{
			Owner:      cri.Owner{Name: o.owner},
			Sink:       s,
			Events:     syncpod.EventRecorderFunc(s.Eventf),
			Node:       syncpod.Node{LogsRoot: o.podLogs, DialPod: conn.dialPod},
			Extensions: syncpod.Extensions{Cgroups: cgroups},
			Objects:    syncpod.Objects{Sources: env.Sources{ConfigMaps: manifests, Secrets: manifests}, PullSecrets: manifests},
		},
	}
	if err := o.recordDecisions(&config); err != nil {
		return err
	}
	v := o.observe(&config, counts)
	agent, err := agent.New(config)
	if err != nil {
		return err
	}
	counts.cache = agent.Cache()
	v.drain.agent, v.drain.say = agent, s.say
	s.say("Pods of %s on %s %s. Ctrl-C %s.", o.manifests, conn.RuntimeName(), conn.RuntimeVersion(), o.atEnd())
	s.say("As for all static pods, the name of the node is appended to each pod's name: web becomes web-%s.", o.node)
	if o.runtime == memory {
		s.say("No processes run: containers are simulated in memory. Volumes are real, and a hostPath is a path of this machine.")
	}
	if o.serve != "" {
		s.say("Ask the agent from another terminal: %s", o.inspection())
	}
	defer func() { s.close("%s", o.farewell(running(agent.Pods()))) }()
	return serve(ctx, agent, o.drain, v.drain.done, s,
		func(ctx context.Context) error { return serveAPI(ctx, o, agent, conn, v, manifests, s.say) },
		func(ctx context.Context) error { return servePage(ctx, o, agent, v.page, s.say) })
}

// share makes mounts in volumes propagate to containers if the runtime runs processes. On failure, pods that do not
// need propagation still run.
func (o options) share(s *screen) {
	if o.runtime == memory {
		return
	}
	if err := volume.ShareRoot(o.root); err != nil {
		s.say("Volume mounts with mountPropagation or recursiveReadOnly may fail: %v", err)
	}
}

// serve runs the agent and its servers until ctx ends, and then drains the pods with -drain. It also ends once the pods were
// drained.
func serve(ctx context.Context, agent *agent.Agent, drainAtEnd bool, drained <-chan struct{}, s *screen, servers ...func(context.Context) error) error {
	running, detach := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer detach()
	ended := make(chan error, 1)
	wg.Go(func() { ended <- agent.Run(running) })
	wg.Go(func() { display(running, agent, s) })
	served := make(chan error, len(servers))
	for _, server := range servers {
		wg.Go(func() { served <- server(running) })
	}
	select {
	case err := <-ended:
		return err
	case err := <-served:
		return err
	case <-drained:
		drainAtEnd = false
	case <-ctx.Done():
	}
	if drainAtEnd {
		drain(agent, s)
	}
	detach()
	return <-ended
}

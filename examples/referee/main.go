// Command referee checks whether a node agent keeps its promises to pods. The agent is a program. The referee starts a
// runtime in memory, adds and deletes pods, injects faults, and kills the agent now and then. It prints which promises
// the agent kept, and how it broke the others.
//
//	go build -o /tmp/nodeagent ./examples/nodeagent
//	go run ./examples/referee -- /tmp/nodeagent -runtime {endpoint} -manifests {manifests} -root {root} -pod-logs {logs} -node n1 -stop-unknown
//
// See docs/REFEREE.md for a kubelet, and for an agent in a test's process.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "referee: %v\nSee referee -h.\n", err)
		os.Exit(exitUsage)
	}
	code, err := o.run(ctx, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "referee:", err)
	}
	os.Exit(code)
}

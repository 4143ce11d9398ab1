//go:build linux

// Command hostile is both the agent and the attacks of the tests of hostile containers in internal/rig/e2e:
//
//	hostile agent -runtime ENDPOINT -dir DIR ...   the node agent under attack
//	hostile attack NAME [ARGUMENT...]              an attack, run inside a container
//
// The agent has all optional features of the library enabled, and receives pods at a Unix socket. It reports statuses and
// events as JSON, one object a line. An attack tries everything it can and ignores rejections of the kernel.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0 && args[0] == "agent":
		return beAgent(ctx, args[1:])
	case len(args) > 1 && args[0] == "attack" && attacks()[args[1]] != nil:
		attacks()[args[1]](args[2:])
		return nil
	}
	var names []string
	for name := range attacks() {
		names = append(names, name)
	}
	slices.Sort(names)
	return fmt.Errorf("usage: hostile agent ..., or hostile attack NAME, of %s", strings.Join(names, ", "))
}

// forever waits without end, and ignores the signals that end a process.
func forever() {
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	for range deaf {
	}
}

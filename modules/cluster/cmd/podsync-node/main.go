// Command podsync-node is a node of a Kubernetes cluster: it replaces a kubelet, reads a kubelet's flags and
// configuration file, and runs the pods that are bound to the node on containerd or CRI-O.
//
//	podsync-node --config=/var/lib/kubelet/config.yaml --kubeconfig=/etc/kubernetes/kubelet.conf
//
// Run it with --help for its flags. README.md of the module lists what it supports, and what it does not support yet.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/podsync/podsync/runtime/foreign"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "podsync-node:", err)
		fmt.Fprintln(os.Stderr, "See podsync-node --help.")
		os.Exit(2)
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "podsync-node:", foreign.Text(err.Error()))
		os.Exit(1)
	}
}

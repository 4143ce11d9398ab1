// Command podsync-fleet runs many nodes in one process, for tests of schedulers, autoscalers and controllers: each node
// has podsync's whole agent and a container runtime in memory, so that containers start, fail and use their grace periods
// without any machine.
//
//	podsync-fleet --kubeconfig=admin.conf --nodes=1000 --pods-per-node=110
//	podsync-fleet --in-memory --nodes=100 --pods=1000 --for=5m
//
// It prints a line at each interval of --every, and a summary at the end: the latencies from binding to Ready and from
// deletion to removal, requests to the API server, memory and CPU. When it ends, the nodes stop, but their Node objects
// stay.
package main

// The files:
//
//	main.go    flags
//	run.go     the fleet and its API server
//	shapes.go  labels, taints and capacities of nodes
//	churn.go   crashes, power failures, replacements and partitions
//	pods.go    the pods of --pods
//	report.go  lines and the summary; metrics.go the same for Prometheus
//	serve.go   logs and exec for the API server, and the metrics

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// options are the flags.
type options struct {
	kubeconfig, shapes, dir        string
	listen, metrics                string
	cert, key, clients             string
	inMemory                       bool
	nodes, podsPerNode, createPods int
	seed                           uint64
	crashes, powerFailures         float64
	replacements, partitions       float64
	downtime, pull, partition      time.Duration
	replaceThird                   time.Duration
	every, duration                time.Duration
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("podsync-fleet", flag.ContinueOnError)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of a user who may do what nodes do; default: the service account of the pod")
	flags.BoolVar(&o.inMemory, "in-memory", false, "use an API server and a binder in this process instead of a cluster")
	flags.IntVar(&o.nodes, "nodes", 10, "number of nodes")
	flags.IntVar(&o.podsPerNode, "pods-per-node", 110, "number of pods that a node has room for")
	flags.IntVar(&o.createPods, "pods", 0, "number of pods to keep in the namespace default: one that is deleted is created again")
	flags.StringVar(&o.shapes, "shapes", "", "file with the shapes of the nodes, which take turns")
	flags.StringVar(&o.dir, "dir", "", "directory for the files of the nodes; default: one that is removed at the end")
	flags.StringVar(&o.listen, "listen", "", "IP:PORT that all nodes report, where the API server gets logs and runs commands; default: it cannot")
	flags.StringVar(&o.cert, "tls-cert-file", "", "certificate for --listen; default: a self-signed one")
	flags.StringVar(&o.key, "tls-private-key-file", "", "key of --tls-cert-file")
	flags.StringVar(&o.clients, "client-ca-file", "", "authorities of the client certificates that --listen accepts; default: it accepts tokens only")
	flags.StringVar(&o.metrics, "metrics-bind-address", "", "HOST:PORT for /metrics; default: there are none")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of what goes wrong")
	flags.Float64Var(&o.crashes, "crashes", 0, "crashes of each container in an hour")
	flags.Float64Var(&o.powerFailures, "node-deaths", 0, "power failures of each node in an hour")
	flags.DurationVar(&o.downtime, "downtime", time.Minute, "time until a node is switched on again after a power failure, or replaced")
	flags.Float64Var(&o.replacements, "node-replacements", 0, "machines in an hour, for each node, that are lost with their Node, and replaced after --downtime by a new one. Needs the right to delete nodes")
	flags.DurationVar(&o.replaceThird, "replace-third-after", 0, "time after which a third of the nodes is lost and replaced; default: none is")
	flags.Float64Var(&o.partitions, "partitions", 0, "partitions from the API server of each node in an hour; requests fail in every other one and hang in the rest")
	flags.DurationVar(&o.partition, "partition-time", 2*time.Minute, "duration of a partition")
	flags.DurationVar(&o.pull, "pull", 0, "time that the pull of an image takes")
	flags.DurationVar(&o.every, "every", 5*time.Second, "time between lines")
	flags.DurationVar(&o.duration, "for", 0, "time after which the fleet ends; default: it ends with SIGINT or SIGTERM")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	for name, value := range map[string]float64{"nodes": float64(o.nodes - 1), "pods-per-node": float64(o.podsPerNode - 1), "pods": float64(o.createPods), "crashes": o.crashes, "node-deaths": o.powerFailures, "node-replacements": o.replacements, "partitions": o.partitions, "every": float64(o.every - 1), "for": float64(o.duration)} {
		if value < 0 {
			return o, fmt.Errorf("--%s is too small", name)
		}
	}
	if _, err := netip.ParseAddrPort(o.listen); o.listen != "" && err != nil {
		return o, fmt.Errorf("--listen is %q, want IP:PORT", o.listen)
	}
	if (o.cert == "") != (o.key == "") {
		return o, errors.New("--tls-cert-file and --tls-private-key-file need each other")
	}
	if o.nodes > maxNodes {
		return o, fmt.Errorf("--nodes is %d, want at most %d", o.nodes, maxNodes)
	}
	return o, nil
}

// maxNodes is the number of prefixes of pod addresses.
const maxNodes = 1 << 16

// gcPercent makes the garbage collector run often, so that a settled fleet uses little memory. GOGC takes precedence.
const gcPercent = 15

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	klog.SetLogger(logr.Discard()) // client-go logs each broken watch
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "podsync-fleet:", err)
		os.Exit(1)
	}
}

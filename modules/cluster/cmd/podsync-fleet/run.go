package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podsync/podsync/modules/cluster/internal/binder"
	"github.com/podsync/podsync/modules/cluster/internal/fleet"
	"github.com/podsync/podsync/modules/cluster/internal/gate"
	"github.com/podsync/podsync/modules/cluster/internal/together"
	"github.com/podsync/podsync/modules/cluster/internal/tracked"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// keptCalls is the number of calls that each runtime records. The fleet does not use them.
const keptCalls = 1

// run runs a fleet until ctx ends or its time has passed.
func run(ctx context.Context, o options, to io.Writer) (err error) {
	out := &lineWriter{out: to}
	if o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "podsync-fleet-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	} else if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	specs, err := shapes(o)
	if err != nil {
		return err
	}
	kube, counts, err := connect(o)
	if err != nil {
		return err
	}
	r, wanted := newReport(counts, out), newWantedPods(kube, o.createPods)
	podChanged := func(pod *v1.Pod, gone bool) {
		r.podChanged(pod, gone)
		if gone {
			wanted.podDeleted(pod)
		}
	}
	c := fleet.Config{Kube: kube, Dir: o.dir, PodChanged: podChanged, Runtime: critest.Config{
		JournalLimit: keptCalls, Latency: map[critest.Method]time.Duration{critest.PullImage: o.pull},
	}}
	var nodes nodesServer
	if at, err := netip.ParseAddrPort(o.listen); err == nil {
		if nodes, err = newNodesServer(o, kube, errorsTo(out)); err != nil {
			return err
		}
		c.Address, c.Port, c.Authenticator, c.Authorizer = at.Addr(), int32(at.Port()), nodes.authenticator, nodes.authorizer
	}
	f, err := fleet.New(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	parts, err := partsOf(o, kube, f, nodes, r)
	if err != nil {
		return err
	}
	parts = append(parts, withoutError(newChurn(o, f, out).run), withoutError(wanted.run))
	if err := startAll(ctx, f, specs); err != nil {
		return err
	}
	err = together.Run(ctx, parts...)
	r.printSummary(o.nodes)
	return err
}

// startAll adds nodes and starts them, until ctx ends.
func startAll(ctx context.Context, f *fleet.Fleet, specs []fleet.Spec) error {
	for _, s := range specs {
		if ctx.Err() != nil {
			return nil
		}
		node, err := f.Add(s)
		if err == nil {
			err = node.Start()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// partsOf returns the functions that run alongside the nodes.
func partsOf(o options, kube kubernetes.Interface, f *fleet.Fleet, nodes nodesServer, r *report) ([]func(context.Context) error, error) {
	parts := []func(context.Context) error{
		withoutError(func(ctx context.Context) { r.printLines(ctx, o.every) }),
	}
	if o.inMemory {
		b, err := binder.New(kube)
		if err != nil {
			return nil, err
		}
		parts = append(parts, withoutError(b.Run))
	}
	if o.listen != "" {
		parts = append(parts, func(ctx context.Context) error { return nodes.run(ctx, f) })
	}
	if o.metrics != "" {
		parts = append(parts, func(ctx context.Context) error { return serveMetrics(ctx, o.metrics, r) })
	}
	return parts, nil
}

func withoutError(run func(context.Context)) func(context.Context) error {
	return func(ctx context.Context) error { run(ctx); return nil }
}

// connect returns a client, and a function that returns the number of its requests.
func connect(o options) (kubernetes.Interface, func() map[gate.RequestType]int, error) {
	if o.inMemory {
		g := gate.New(&tracked.Server{Store: tracked.New(scheme.Scheme)}, tracked.VerbAndResource)
		kube, err := kubernetes.NewForConfig(&rest.Config{Host: "http://fleet", Transport: fleet.Transport(g), QPS: -1})
		return kube, g.Counts, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	config.QPS, config.UserAgent = -1, "podsync-fleet"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	var g *gate.Gate
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		g = gate.New(next, tracked.VerbAndResource)
		return fleet.Transport(g)
	})
	client, err := rest.HTTPClientFor(config) // all API groups share one client and one Gate
	if err != nil {
		return nil, nil, err
	}
	kube, err := kubernetes.NewForConfigAndClient(config, client)
	return kube, g.Counts, err
}

// errorsTo returns a logger that prints errors.
func errorsTo(out io.Writer) logr.Logger {
	return funcr.New(func(prefix, args string) { fmt.Fprintln(out, prefix, args) }, funcr.Options{Verbosity: -1})
}

// A lineWriter serializes the lines of several goroutines.
type lineWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lineWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(line)
}

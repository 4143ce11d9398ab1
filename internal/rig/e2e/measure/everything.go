package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/cgroup/tree"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/resize"
	"github.com/podsync/podsync/syncpod/server"
	"github.com/podsync/podsync/syncpod/source"
)

// asAgent is the first argument of this program when it is an agent with all optional features. The flags of nodeagent for
// paths and endpoints follow.
const asAgent = "everything"

// everythingRoot is the cgroup of its pods.
const everythingRoot = "podsync-measure"

// scrapeEvery is the interval at which figures are requested, as by metrics-server.
const scrapeEvery = 15 * time.Second

// everythingSpec returns further settings of its pods' containers: a cgroup, and a probe if they have probes, which starts a
// process each time.
func (s settings) everythingSpec() string {
	spec := "    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {cpu: 500m, memory: 64Mi}}\n"
	if s.probe > 0 {
		spec += fmt.Sprintf("    readinessProbe: {exec: {command: [/bin/true]}, periodSeconds: %d}\n", s.probe)
	}
	return spec
}

// plenty returns thresholds that a node suitable for measurements never meets.
func plenty() map[eviction.Signal]string {
	return map[eviction.Signal]string{
		eviction.MemoryAvailable: "1Mi", eviction.NodeFSAvailable: "1Ki", eviction.NodeFSInodesFree: "1", eviction.ImageFSAvailable: "1Ki", eviction.PIDAvailable: "1",
	}
}

// beAgent runs an agent with every optional feature: cgroups, resizes, image collection, log rotation,
// evictions, OOM events, a checkpoint of its source, probes and stats.
func beAgent(ctx context.Context, args []string) error {
	debug.SetGCPercent(40) // as nodeagent, once it has settled
	flags := flag.NewFlagSet(asAgent, flag.ContinueOnError)
	manifests, endpoint, node := flags.String("manifests", "", ""), flags.String("runtime", "", ""), flags.String("node", "", "")
	root, podLogs := flags.String("root", "", ""), flags.String("pod-logs", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	client, err := cri.Dial(ctx, cri.Config{Endpoint: *endpoint})
	if err != nil {
		return err
	}
	defer client.Close()
	pods, err := source.NewFolder(source.FolderConfig{Path: *manifests, NodeName: *node})
	if err != nil {
		return err
	}
	allocatable := v1.ResourceList{v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("64Gi")}
	cgroups, err := tree.New(tree.Config{State: filepath.Join(*root, "cgroups"), Root: everythingRoot, Allocatable: allocatable})
	if err != nil {
		return err
	}
	allocations, err := resize.New(resize.Config{State: filepath.Join(*root, "allocations"), Allocatable: allocatable})
	if err != nil {
		return err
	}
	remembered, err := source.NewCheckpoint(source.CheckpointConfig{Source: pods, Path: filepath.Join(*root, "remembered.json")})
	if err != nil {
		return err
	}
	agent, err := nodeagent.New(nodeagent.Config{
		Client: client, Root: *root, NodeName: *node, Sources: []source.Source{remembered},
		ImagePolicy: image.GCPolicy{HighPercent: 99, LowPercent: 98}, EvictionPolicy: eviction.Policy{Hard: plenty()},
		Sync: syncpod.Config{Node: syncpod.Node{LogsRoot: *podLogs}, Extensions: syncpod.Extensions{Cgroups: cgroups, Allocations: allocations}},
	})
	if err != nil {
		return err
	}
	s, err := server.New(server.Config{Agent: agent, Client: client, Stats: agent.Stats(), NodeName: *node})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*root, 0o700); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- s.ServeUnix(ctx, socketOf(*root)) }()
	err = agent.Run(ctx)
	return joined(err, <-served)
}

// removeCgroups removes the cgroups above those of pods, which remain after all pods have been removed.
func removeCgroups() {
	trees, _ := filepath.Glob("/sys/fs/cgroup/*/" + everythingRoot) // the pattern is a good one
	for _, top := range append(trees, filepath.Join("/sys/fs/cgroup", everythingRoot)) {
		for _, dir := range []string{"burstable", "besteffort", ""} {
			_ = os.Remove(filepath.Join(top, dir)) // it is empty, or does not exist
		}
	}
}

func joined(errs ...error) error {
	for _, err := range errs {
		if err != nil && err != context.Canceled {
			return err
		}
	}
	return nil
}

func socketOf(root string) string { return filepath.Join(root, "s") }

// scrape requests an agent's figures until ctx ends.
func scrape(ctx context.Context, socket string, report func(error)) {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	for pause(ctx, scrapeEvery) == nil {
		for _, path := range []string{"/stats/summary", "/metrics/resource"} {
			if err := get(ctx, client, path); err != nil && ctx.Err() == nil {
				report(fmt.Errorf("%s: %w", path, err))
			}
		}
	}
}

func get(ctx context.Context, client *http.Client, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

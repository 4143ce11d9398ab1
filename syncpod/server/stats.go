package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	podstats "github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod/volume"
)

// maxStatsAge is the maximum age of figures: concurrent callers share one reading. A kubelet's are
// up to 10 s old.
const maxStatsAge = time.Second

// figures are the last figures read: a stats.Stats, or details.
type figures[T any] struct {
	read func(context.Context, []*runtime.PodStatus) (T, error)
	// failed is called once for each incomplete reading.
	failed func(error)

	mu      sync.Mutex
	reading chan struct{} // closed at the read's end in flight, nil if there is none
	at      time.Time
	stats   T
	err     error
}

// get returns figures of at most the maximum age, and their error. Of several concurrent callers
// one reads.
func (f *figures[T]) get(ctx context.Context, pods func() []*runtime.PodStatus) (T, error) {
	for {
		f.mu.Lock()
		if !f.at.IsZero() && time.Since(f.at) < maxStatsAge {
			defer f.mu.Unlock()
			return f.stats, f.err
		}
		reading := f.reading
		if reading == nil {
			f.reading = make(chan struct{})
		}
		f.mu.Unlock()
		if reading == nil {
			return f.renew(ctx, pods)
		}
		select {
		case <-reading:
		case <-ctx.Done():
			return *new(T), ctx.Err()
		}
	}
}

// renew stores the figures it reads, unless the caller has disconnected in the meantime, which may
// have made them incomplete.
func (f *figures[T]) renew(ctx context.Context, pods func() []*runtime.PodStatus) (read T, err error) {
	began, done := time.Now(), false
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		close(f.reading)
		f.reading = nil
		if done && ctx.Err() == nil {
			f.at, f.stats, f.err = began, read, err
		}
	}()
	read, err = f.read(ctx, pods())
	done = true
	if err != nil && ctx.Err() == nil {
		f.failed(err)
	}
	return read, err
}

// known returns the pods that the runtime has, sorted by name.
func (s *Server) known() []*runtime.PodStatus {
	cache := s.config.Agent.Cache()
	var list []*runtime.PodStatus
	for _, uid := range cache.UIDs() {
		if status, _ := cache.Get(uid); !status.Empty() {
			list = append(list, status)
		}
	}
	slices.SortFunc(list, func(a, b *runtime.PodStatus) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return list
}

// The summary has the form of the kubelet's stats API, without fields that are unknown here.
type summary struct {
	Node nodeSummary  `json:"node"`
	Pods []podSummary `json:"pods"`
}

type nodeSummary struct {
	NodeName  string            `json:"nodeName"`
	StartTime time.Time         `json:"startTime,omitzero"`
	CPU       *podstats.CPU     `json:"cpu,omitempty"`
	Memory    *podstats.Memory  `json:"memory,omitempty"`
	Network   *podstats.Network `json:"network,omitempty"`
	FS        *podstats.FS      `json:"fs,omitempty"`
	Runtime   *runtimeSummary   `json:"runtime,omitempty"`
	Rlimit    *podstats.Rlimit  `json:"rlimit,omitempty"`
}

type runtimeSummary struct {
	ImageFS     *podstats.FS `json:"imageFs,omitempty"`
	ContainerFS *podstats.FS `json:"containerFs,omitempty"`
}

type podSummary struct {
	PodRef     podReference       `json:"podRef"`
	StartTime  time.Time          `json:"startTime,omitzero"`
	Containers []containerSummary `json:"containers"`
	CPU        *podstats.CPU      `json:"cpu,omitempty"`
	Memory     *podstats.Memory   `json:"memory,omitempty"`
	Network    *podstats.Network  `json:"network,omitempty"`
	Volumes    []volumeSummary    `json:"volume,omitempty"`
}

type volumeSummary struct {
	podstats.FS
	Name   string          `json:"name"`
	PVCRef *claimReference `json:"pvcRef,omitempty"`
	Health *volumeHealth   `json:"volumeHealthStats,omitempty"`
}

type claimReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

type volumeHealth struct {
	Abnormal bool `json:"abnormal"`
}

type podReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
}

type containerSummary struct {
	Name      string           `json:"name"`
	StartTime time.Time        `json:"startTime,omitzero"`
	CPU       *podstats.CPU    `json:"cpu,omitempty"`
	Memory    *podstats.Memory `json:"memory,omitempty"`
	RootFS    *podstats.FS     `json:"rootfs,omitempty"`
}

// serveSummary returns the node's usage, its pods and containers.
func (s *Server) serveSummary(a *answer, r *http.Request) error {
	figures, volumes := &s.allStats, s.config.VolumeStats
	if r.URL.Query().Get("only_cpu_and_memory") == "true" {
		figures, volumes = &s.cpuAndMemory, nil
	}
	all, _ := figures.get(r.Context(), s.known) // its error is logged
	ofPods := map[types.UID][]volumeSummary{}
	if volumes != nil {
		ofPods = summarizeVolumes(volumes(r.Context()))
	}
	if gone := r.Context().Err(); gone != nil {
		return gone
	}
	return s.writeJSON(a, r, s.summarize(all, ofPods))
}

func (s *Server) summarize(all podstats.Stats, volumes map[types.UID][]volumeSummary) summary {
	n := &all.Node
	sum := summary{
		Node: nodeSummary{NodeName: s.config.NodeName, StartTime: n.BootTime, CPU: n.CPU, Memory: n.Memory, Network: n.Network, FS: n.FS, Rlimit: n.Rlimit},
		Pods: []podSummary{},
	}
	if n.ImageFS != nil || n.ContainerFS != nil {
		sum.Node.Runtime = &runtimeSummary{n.ImageFS, n.ContainerFS}
	}
	for i := range all.Pods {
		p := &all.Pods[i]
		pod := podSummary{
			PodRef: podReference{p.Name, p.Namespace, string(p.UID)}, StartTime: p.StartTime,
			Containers: []containerSummary{}, CPU: p.CPU, Memory: p.Memory, Network: p.Network, Volumes: volumes[p.UID],
		}
		for j := range p.Containers {
			c := &p.Containers[j]
			pod.Containers = append(pod.Containers, containerSummary{c.Name, c.StartTime, c.CPU, c.Memory, c.RootFS})
		}
		sum.Pods = append(sum.Pods, pod)
	}
	return sum
}

// summarizeVolumes returns each pod's volumes, in the list's order.
func summarizeVolumes(list []volume.Stats) map[types.UID][]volumeSummary {
	ofPods := map[types.UID][]volumeSummary{}
	for i := range list {
		v := &list[i]
		sum := volumeSummary{Name: v.Volume, FS: podstats.FS{
			Time: v.Time, CapacityBytes: v.CapacityBytes, AvailableBytes: v.AvailableBytes, UsedBytes: v.UsedBytes,
			Inodes: v.Inodes, InodesFree: v.InodesFree, InodesUsed: v.InodesUsed,
		}}
		if v.Claim.Name != "" {
			sum.PVCRef = &claimReference{v.Claim.Name, v.Claim.Namespace}
		}
		if v.Abnormal != nil {
			sum.Health = &volumeHealth{*v.Abnormal}
		}
		ofPods[v.Pod] = append(ofPods[v.Pod], sum)
	}
	return ofPods
}

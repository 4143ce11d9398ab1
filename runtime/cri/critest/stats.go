package critest

import (
	"context"
	"fmt"
	"maps"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A running container's usage: a hundredth of a core and a mebibyte.
const (
	nanoCores  = 10_000_000
	usedMemory = 1 << 20
)

func (s service) ContainerStats(_ context.Context, req *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := byID(s.containers, req.GetContainerId())
	if c == nil {
		return nil, s.cfg.Like.errNoContainer(req.GetContainerId())
	}
	return &runtimeapi.ContainerStatsResponse{Stats: c.stats()}, nil
}

func (s service) ListContainerStats(_ context.Context, req *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &runtimeapi.ListContainerStatsResponse{}
	f := req.GetFilter()
	for _, c := range s.containersOf(f.GetPodSandboxId()) {
		if (f.GetId() == "" || f.GetId() == c.id) && selects(f.GetLabelSelector(), c.config.GetLabels()) {
			resp.Stats = append(resp.Stats, c.stats())
		}
	}
	return resp, nil
}

// stats must be called with mu held. As in containerd, the stats of a container without a process have
// only its attributes and its writable layer.
func (c *container) stats() *runtimeapi.ContainerStats {
	st := &runtimeapi.ContainerStats{Attributes: &runtimeapi.ContainerAttributes{
		Id: c.id, Metadata: proto.CloneOf(c.config.GetMetadata()),
		Labels: maps.Clone(c.config.GetLabels()), Annotations: maps.Clone(c.config.GetAnnotations()),
	}}
	now := time.Now().UnixNano()
	st.WritableLayer = &runtimeapi.FilesystemUsage{
		Timestamp: now, UsedBytes: &runtimeapi.UInt64Value{Value: c.usage.RootFSBytes},
	}
	if c.running {
		st.Cpu, st.Memory = usage(now, time.Duration(now-c.startedAt), 1)
		c.usage.setMemory(st.Memory)
	}
	return st
}

// Usage is a running container's reported usage.
type Usage struct {
	// MemoryBytes is the container's memory, all of it in the working set. Default: 1 MiB.
	MemoryBytes uint64
	// RootFSBytes is the usage of the container's writable layer.
	RootFSBytes uint64
}

// SetUsage changes a container's reported usage. The usage of its pod includes it.
func (r *Runtime) SetUsage(container string, u Usage) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[container]
	if c == nil {
		return fmt.Errorf("critest: container %q: %w", container, errNoID)
	}
	c.usage = u
	return nil
}

func (u Usage) setMemory(m *runtimeapi.MemoryUsage) {
	if u.MemoryBytes > 0 {
		m.WorkingSetBytes.Value, m.UsageBytes.Value, m.RssBytes.Value = u.MemoryBytes, u.MemoryBytes, u.MemoryBytes
	}
}

func usage(now int64, age time.Duration, n uint64) (*runtimeapi.CpuUsage, *runtimeapi.MemoryUsage) {
	spent := n * uint64(max(age, 0).Seconds()*nanoCores)
	return &runtimeapi.CpuUsage{
			Timestamp:            now,
			UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: spent},
			UsageNanoCores:       &runtimeapi.UInt64Value{Value: n * nanoCores},
		}, &runtimeapi.MemoryUsage{
			Timestamp:       now,
			WorkingSetBytes: &runtimeapi.UInt64Value{Value: n * usedMemory},
			UsageBytes:      &runtimeapi.UInt64Value{Value: n * usedMemory},
			RssBytes:        &runtimeapi.UInt64Value{Value: n * usedMemory},
		}
}

func (s service) PodSandboxStats(_ context.Context, req *runtimeapi.PodSandboxStatsRequest) (*runtimeapi.PodSandboxStatsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sb := byID(s.sandboxes, req.GetPodSandboxId())
	if sb == nil {
		return nil, status.Errorf(codes.NotFound, "an error occurred when try to find sandbox %q: not found", req.GetPodSandboxId())
	}
	return &runtimeapi.PodSandboxStatsResponse{Stats: s.sandboxStats(sb)}, nil
}

func (s service) ListPodSandboxStats(_ context.Context, req *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &runtimeapi.ListPodSandboxStatsResponse{}
	f := req.GetFilter()
	for _, sb := range s.allSandboxes() {
		if sb.ready() && (f.GetId() == "" || f.GetId() == sb.id) && selects(f.GetLabelSelector(), sb.config.GetLabels()) {
			resp.Stats = append(resp.Stats, s.sandboxStats(sb))
		}
	}
	return resp, nil
}

// sandboxStats must be called with mu held.
func (s service) sandboxStats(sb *sandbox) *runtimeapi.PodSandboxStats {
	linux := &runtimeapi.LinuxPodSandboxStats{}
	processes := uint64(1) // the sandbox's own process
	for _, c := range s.containersOf(sb.id) {
		linux.Containers = append(linux.Containers, c.stats())
		if c.running {
			processes++
		}
	}
	now := time.Now().UnixNano()
	linux.Cpu, linux.Memory = usage(now, time.Duration(now-sb.createdAt), processes)
	for _, c := range s.containersOf(sb.id) {
		if extra := c.usage.MemoryBytes; c.running && extra > 0 {
			total := linux.Memory.WorkingSetBytes.Value - usedMemory + extra
			Usage{MemoryBytes: total}.setMemory(linux.Memory)
		}
	}
	linux.Process = &runtimeapi.ProcessUsage{Timestamp: now, ProcessCount: &runtimeapi.UInt64Value{Value: processes}}
	return &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{
			Id: sb.id, Metadata: proto.CloneOf(sb.config.GetMetadata()),
			Labels: maps.Clone(sb.config.GetLabels()), Annotations: maps.Clone(sb.config.GetAnnotations()),
		},
		Linux: linux,
	}
}

package stats

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// Runtime is the part of the CRI that a Reader calls. A *cri.Client implements it.
type Runtime interface {
	ListPodSandboxStats(context.Context, *runtimeapi.ListPodSandboxStatsRequest, ...grpc.CallOption) (*runtimeapi.ListPodSandboxStatsResponse, error)
	ListContainerStats(context.Context, *runtimeapi.ListContainerStatsRequest, ...grpc.CallOption) (*runtimeapi.ListContainerStatsResponse, error)
	ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest, ...grpc.CallOption) (*runtimeapi.ImageFsInfoResponse, error)
}

// reported holds the figures that the runtime reports, by ID.
type reported struct {
	sandboxes  map[string]*runtimeapi.LinuxPodSandboxStats
	containers map[string]*runtimeapi.ContainerStats
	err        error // the reason why figures are missing
}

// ask reads the stats of all pods with their containers. It reads those of all containers if that fails, or if a container that
// runs is missing, as with CRI-O before 1.27 (cri-o #6563).
func ask(ctx context.Context, rt Runtime, known []*runtime.PodStatus) reported {
	r := reported{sandboxes: map[string]*runtimeapi.LinuxPodSandboxStats{}, containers: map[string]*runtimeapi.ContainerStats{}}
	pods, err := rt.ListPodSandboxStats(ctx, &runtimeapi.ListPodSandboxStatsRequest{})
	if err != nil {
		r.err = failure("ListPodSandboxStats", err)
	}
	for _, p := range pods.GetStats() {
		r.sandboxes[p.GetAttributes().GetId()] = p.GetLinux()
		r.add(p.GetLinux().GetContainers())
	}
	if err == nil && !slices.ContainsFunc(known, r.lacksContainers) {
		return r
	}
	containers, err := rt.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{})
	if err != nil {
		r.err = errors.Join(r.err, failure("ListContainerStats", err))
		return r
	}
	r.add(containers.GetStats())
	return r
}

// lacksContainers reports whether a container of the pod runs without figures.
func (r *reported) lacksContainers(pod *runtime.PodStatus) bool {
	return pod != nil && slices.ContainsFunc(pod.Containers, func(c runtime.ContainerStatus) bool {
		return c.State == runtime.ContainerRunning && r.containers[c.ID.ID] == nil
	})
}

func (r *reported) add(list []*runtimeapi.ContainerStats) {
	for _, c := range list {
		r.containers[c.GetAttributes().GetId()] = c
	}
}

// failure returns the error of a call that failed, nil if the runtime does not implement it.
func failure(call string, err error) error {
	if err = cri.Classify(err); errors.Is(err, cri.ErrUnimplemented) {
		return nil
	}
	return fmt.Errorf("%s: %w", call, err)
}

func when(timestamp int64) time.Time { return time.Unix(0, timestamp) }

// value returns a copy of the message's value, nil if the message is nil.
func value(v *runtimeapi.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	return new(v.GetValue())
}

func cpuFrom(c *runtimeapi.CpuUsage) *CPU {
	if c.GetUsageCoreNanoSeconds() == nil {
		return nil
	}
	return &CPU{Time: when(c.GetTimestamp()), UsageNanoCores: value(c.GetUsageNanoCores()), UsageCoreNanoSeconds: value(c.GetUsageCoreNanoSeconds())}
}

func memoryFrom(m *runtimeapi.MemoryUsage) *Memory {
	if m.GetWorkingSetBytes() == nil {
		return nil
	}
	return &Memory{
		Time: when(m.GetTimestamp()), AvailableBytes: value(m.GetAvailableBytes()), UsageBytes: value(m.GetUsageBytes()),
		WorkingSetBytes: value(m.GetWorkingSetBytes()), RSSBytes: value(m.GetRssBytes()),
		PageFaults: value(m.GetPageFaults()), MajorPageFaults: value(m.GetMajorPageFaults()),
	}
}

func networkFrom(n *runtimeapi.NetworkUsage) *Network {
	if n.GetDefaultInterface() == nil && len(n.GetInterfaces()) == 0 {
		return nil
	}
	network := &Network{Time: when(n.GetTimestamp())}
	if i := n.GetDefaultInterface(); i != nil {
		network.Interface = interfaceFrom(i)
		network.Interfaces = append(network.Interfaces, network.Interface)
	}
	for _, i := range n.GetInterfaces() {
		if i.GetName() != network.Name {
			network.Interfaces = append(network.Interfaces, interfaceFrom(i))
		}
	}
	return network
}

func interfaceFrom(i *runtimeapi.NetworkInterfaceUsage) Interface {
	return Interface{
		Name: i.GetName(), RxBytes: value(i.GetRxBytes()), RxErrors: value(i.GetRxErrors()),
		TxBytes: value(i.GetTxBytes()), TxErrors: value(i.GetTxErrors()),
	}
}

// disks reads the usage of file systems, each path once.
type disks struct {
	seen map[string]*FS
	errs []error
}

// mustOf is like the method of, but a missing path is an error.
func (d *disks) mustOf(path string) *FS {
	before := len(d.errs)
	found := d.of(path)
	if found == nil && len(d.errs) == before {
		d.errs = append(d.errs, fmt.Errorf("%s: it is not there: %w", path, fs.ErrNotExist))
	}
	return found
}

// of returns the file system that contains the path, nil if it is unknown. A path that the runtime
// reports need not exist in this process's mount namespace.
func (d *disks) of(path string) *FS {
	if known, ok := d.seen[path]; ok || path == "" {
		return known
	}
	found, err := StatFS(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.errs = append(d.errs, err)
	}
	d.seen[path] = found
	return found
}

// from converts the usage of a file system that the runtime reports.
func (d *disks) from(u *runtimeapi.FilesystemUsage) *FS {
	if u == nil {
		return nil
	}
	used := &FS{}
	if whole := d.of(u.GetFsId().GetMountpoint()); whole != nil {
		*used = *whole
	}
	used.Time, used.UsedBytes, used.InodesUsed = when(u.GetTimestamp()), value(u.GetUsedBytes()), value(u.GetInodesUsed())
	return used
}

// imageFS returns the file systems of images and of the containers' writable layers.
func (d *disks) imageFS(ctx context.Context, rt Runtime) (images, containers *FS) {
	resp, err := rt.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		if err = failure("ImageFsInfo", err); err != nil {
			d.errs = append(d.errs, err)
		}
		return nil, nil
	}
	first := func(list []*runtimeapi.FilesystemUsage) *FS {
		if len(list) == 0 {
			return nil
		}
		return d.from(list[0])
	}
	images, containers = first(resp.GetImageFilesystems()), first(resp.GetContainerFilesystems())
	if containers == nil {
		containers = images // CRI defines that both are then the same file system
	}
	return images, containers
}

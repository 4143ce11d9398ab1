package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	goos "runtime"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/modules/cluster/admission"
	"github.com/podsync/podsync/modules/cluster/config"
	"github.com/podsync/podsync/modules/cluster/mirrors"
	"github.com/podsync/podsync/modules/cluster/node"
	"github.com/podsync/podsync/modules/cluster/objects"
	"github.com/podsync/podsync/modules/cluster/pods"
	"github.com/podsync/podsync/modules/cluster/projections"
	"github.com/podsync/podsync/modules/cluster/status"
	"github.com/podsync/podsync/modules/cluster/volumes"
	"github.com/podsync/podsync/modules/csi"
	"github.com/podsync/podsync/modules/devices"
	"github.com/podsync/podsync/modules/dra"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/resize"
	"github.com/podsync/podsync/syncpod/source"
)

// parts are the running parts of the agent.
type parts struct {
	node   *node.Node
	source *pods.Source
	// checkpoint is nil with --forget-pods.
	checkpoint *source.Checkpoint
	objects    *objects.Objects
	projected  *projections.Projections
	mirrors    *mirrors.Mirrors
	statuses   *status.Manager
	devices    *devices.Manager
	claims     *dra.Manager
	volumes    *volumes.Volumes
	csi        *csi.Manager
	loop       *nodeagent.Agent
}

func (a *agent) parts(ctx context.Context, events record.EventRecorder) (p *parts, err error) {
	p = &parts{}
	if a.policy, err = config.Eviction(a.kubelet); err != nil {
		return p, err
	}
	machine := node.ReadMachine()
	if *a.kubelet.LocalStorageCapacityIsolation {
		machine.StorageBytes = node.StorageBytes(a.root)
	}
	capacity := machine.Capacity(maxPods(a.kubelet, machine.CPUs))
	room, err := a.nodeResources(machine, capacity)
	if err != nil {
		return p, err
	}
	if p.devices, err = a.devicesOf(); err != nil {
		return p, err
	}
	if a.pins, err = a.pinsOf(capacity); err != nil {
		return p, err
	}
	if p.claims, err = a.claimsOf(p); err != nil {
		return p, err
	}
	if p.node, err = a.node(p, machine, capacity, room.allocatable, events); err != nil {
		return p, err
	}
	refused := func(pod *v1.Pod, err error) { p.statuses.Refused(pod, err) }
	if p.source, err = pods.New(pods.Config{Kube: a.kube, NodeName: a.name, After: p.node.Registered(), Refused: refused, Log: a.log}); err != nil {
		return p, err
	}
	if p.objects, err = objects.New(objects.Config{Kube: a.kube, Pods: p.pods, Changed: p.source.ConfigsChanged}); err != nil {
		return p, err
	}
	if p.projected, err = projections.New(projections.Config{Kube: a.kube, Changed: p.source.ConfigsChanged, Node: p.node.Object, Pods: p.pods}); err != nil {
		return p, err
	}
	if err = a.volumesOf(p); err != nil {
		return p, err
	}
	if p.checkpoint, err = a.checkpoint(p); err != nil {
		return p, err
	}
	if p.mirrors, err = mirrors.New(mirrors.Config{Kube: a.kube, Node: p.node.Object, Synced: p.source.Listed(), Running: p.running, Log: a.log}); err != nil {
		return p, err
	}
	if p.statuses, err = status.New(status.Config{Kube: a.kube, Pods: p.source, Mirror: p.mirrors.Mirror, Log: a.log}); err != nil {
		return p, err
	}
	p.source.Watch(p.objects.PodChanged)
	p.source.Watch(p.podChanged)
	return p, a.loop(ctx, p, room, events)
}

// podChanged passes a change to a pod in the API server to the mirrors, and then to the statuses, which read the mirrors.
func (p *parts) podChanged(pod *v1.Pod, gone bool) {
	p.mirrors.PodChanged(pod, gone)
	p.statuses.PodChanged(pod, gone)
}

// pods returns the pods in the API server, and the pods that run.
func (p *parts) pods() []*v1.Pod {
	pods := p.source.Pods()
	for _, running := range p.loop.Pods() {
		pods = append(pods, running.Pod)
	}
	return pods
}

// checkpoint returns the checkpoint of the pods of the API server, for a start without the server.
func (a *agent) checkpoint(p *parts) (*source.Checkpoint, error) {
	dir, err := checkpointDir(a.root)
	if err != nil {
		return nil, err
	}
	if a.forget {
		if err := os.RemoveAll(dir); err != nil {
			return nil, fmt.Errorf("--forget-pods: %w", err)
		}
		return nil, nil
	}
	c := source.CheckpointConfig{
		Source: p.source, Path: filepath.Join(dir, "pods"), MaxAge: a.forgetAfter,
		ConfigMaps: p.objects, Secrets: p.objects, Services: p.objects, RuntimeClasses: p.objects, Tokens: p.objects,
	}
	if a.checkpointKey == "" {
		return source.NewCheckpoint(c)
	}
	path, old, _ := strings.Cut(a.checkpointKey, ",")
	if c.Key, err = readKey(path); err == nil && old != "" {
		c.OldKey, err = readKey(old)
	}
	if err != nil {
		return nil, fmt.Errorf("--checkpoint-key-file: %w", err)
	}
	return source.NewCheckpoint(c)
}

// checkpointDir returns the checkpoint's directory. Agents before v0.1.0 named it "remembered". If
// that directory exists, such an agent ran last, so its checkpoint replaces the other one.
func checkpointDir(root string) (string, error) {
	dir, old := filepath.Join(root, "checkpoint"), filepath.Join(root, "remembered")
	if _, err := os.Lstat(old); errors.Is(err, fs.ErrNotExist) {
		return dir, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("the checkpoint: %w", err)
	}
	if err := os.Rename(old, dir); err != nil {
		return "", fmt.Errorf("the checkpoint: %w", err)
	}
	return dir, nil
}

// confirm records that the API server still wants the pods, because the lease has been renewed.
func (p *parts) confirm() {
	if p.checkpoint != nil {
		p.checkpoint.Confirm()
	}
}

// checkpointKeySize is the size of an AES-256 key, in bytes.
const checkpointKeySize = 32

// readKey reads a key from a file that no other user may read.
func readKey(path string) ([]byte, error) {
	file, info, err := hostfs.OpenPath(path) // opening a FIFO would wait for a writer
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if mode := info.Mode(); goos.GOOS != "windows" && mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %v, want a regular file that its owner alone may read or write", path, mode)
	}
	key, err := io.ReadAll(io.LimitReader(file, checkpointKeySize+1))
	if err != nil {
		return nil, err
	}
	if len(key) != checkpointKeySize {
		return nil, fmt.Errorf("%s has %d bytes, want %d", path, info.Size(), checkpointKeySize)
	}
	return key, nil
}

// registeredTasks returns the functions that run while the node is registered.
func (p *parts) registeredTasks() (all []func(context.Context) error) {
	for _, run := range []func(context.Context){p.statuses.Run, p.objects.Run, p.projected.Run, p.mirrors.Run, p.node.Run, p.keepVolumes} {
		all = append(all, func(ctx context.Context) error { run(ctx); return nil })
	}
	return all
}

// running reports whether any part of a pod is left on the node.
func (p *parts) running(uid types.UID) bool {
	return slices.ContainsFunc(p.loop.Pods(), func(pod loop.Pod) bool { return pod.Pod.UID == uid && !pod.Phase.HasFinished() })
}

// nodeResources are the resources of the machine that pods may use.
type nodeResources struct {
	// allocatable is the amount that pods may request. enforced is the limit for the cgroup of all pods. It includes
	// the amounts that hard evictions keep free, so that pods are evicted before the kernel's OOM killer acts.
	allocatable, enforced v1.ResourceList
	// appArmor is set if containers can have AppArmor profiles.
	appArmor bool
}

// nodeResources subtracts the reservations from the capacity of the machine.
func (a *agent) nodeResources(machine node.Machine, capacity v1.ResourceList) (r nodeResources, err error) {
	system, err := config.Amounts("systemReserved", a.kubelet.SystemReserved)
	if err != nil {
		return r, err
	}
	kube, err := config.Amounts("kubeReserved", a.kubelet.KubeReserved)
	if err != nil {
		return r, err
	}
	rules, err := eviction.ParsePolicy(a.policy)
	if err != nil {
		return r, err
	}
	r.allocatable = node.Allocatable(capacity, system, kube, node.Reserved(rules, capacity))
	r.appArmor = machine.AppArmor
	r.enforced = node.Allocatable(machine.WithPIDs(capacity), system, kube)
	return r, nil
}

func (a *agent) node(p *parts, machine node.Machine, capacity, allocatable v1.ResourceList, events node.Recorder) (*node.Node, error) {
	c := node.Config{
		Kube: a.kube, Heartbeats: a.heartbeats, HeartbeatFailed: a.heartbeatFailed, Renewed: p.confirm, Runtime: a.runtime, Name: a.name, IPs: a.addresses, ProviderID: a.kubelet.ProviderID, Taints: a.kubelet.RegisterWithTaints,
		Labels: a.labels, ExternalCloud: a.externalCloud, ProvidedIPs: len(a.ips) > 0,
		Capacity: capacity, Allocatable: allocatable, Machine: machine,
		Interval: a.kubelet.NodeStatusUpdateFrequency.Duration, ReportInterval: a.kubelet.NodeStatusReportFrequency.Duration,
		LeaseDuration: seconds(a.kubelet.NodeLeaseDurationSeconds), MaxImages: new(int(*a.kubelet.NodeStatusMaxImages)), Events: events, Log: a.log,
		Pressure: func() []v1.NodeCondition { return p.loop.Pressure() }, // p.loop is set later
		NotReady: a.notReady,
		Devices:  p.devices.Capacity, VolumesInUse: p.volumesInUse,
	}
	if *a.kubelet.EnableServer {
		c.Port = a.kubelet.Port
	}
	return node.New(c)
}

// loop creates the agent that runs the pods.
func (a *agent) loop(ctx context.Context, p *parts, room nodeResources, events record.EventRecorder) error {
	allocator, err := resize.New(resize.Config{State: filepath.Join(a.root, "allocations"), Allocatable: room.allocatable, Check: a.pins.Resize, Log: a.log})
	if err != nil {
		return err
	}
	sync, err := a.sync(ctx, room, events)
	if err != nil {
		return err
	}
	sync.Sink, sync.Events, sync.Extensions.Allocations = p.statuses, events, allocator
	sync.Extensions.CPUSets = a.pins
	sync.Extensions.Devices, sync.Extensions.Volumes, sync.Extensions.Network = p.claims, p.csi, p.node
	if sync.Extensions.UserNamespaces, err = a.namespaces(ctx, room.allocatable.Pods().Value()); err != nil {
		return err
	}
	var pods source.Source
	if pods, sync.Objects = p.source, p.objects.Supply(); p.checkpoint != nil {
		pods, sync.Objects = p.checkpoint, objects.SupplyCheckpoint(p.checkpoint)
	}
	sync.Objects.Projections = p.projected
	if sync.Objects, err = a.withPlugins(sync.Objects); err != nil {
		return err
	}
	preemption := admission.NewPreemption(admission.PreemptionConfig{Preempted: a.metrics.CountPreemption, Log: a.log})
	fits := &admission.Admission{
		Node: p.node, NodeName: a.name, Allocatable: room.allocatable, AllowedSysctls: a.kubelet.AllowedUnsafeSysctls, AppArmor: room.appArmor,
		Allocated: allocator.Allocated, Reserve: allocator.Reserve, Preemption: preemption,
	}
	sync.Extensions.Admit = append(sync.Extensions.Admit, preemption)
	c := nodeagent.Config{
		StopUnknown: true, // as a kubelet does
		Client:      a.runtime, Root: a.root, Sources: []source.Source{pods}, NodeName: a.name, Log: a.log,
		Admission: p.admission(fits), Sync: sync,
		EvictionPolicy: a.policy, Stats: a.stats, Parts: []loop.Part{preemption},
		ImagePolicy: image.GCPolicy{
			HighPercent: int(*a.kubelet.ImageGCHighThresholdPercent), LowPercent: int(*a.kubelet.ImageGCLowThresholdPercent),
			MinAge: a.kubelet.ImageMinimumGCAge.Duration, MaxAge: a.kubelet.ImageMaximumGCAge.Duration,
		},
	}
	if c.Images, err = a.images(); err != nil {
		return err
	}
	if c.LogPolicy, c.NoLogRotation, err = config.Logs(a.kubelet); err != nil {
		return err
	}
	c.Finished = p.statuses.Finished
	a.metrics.Observe(&c)
	if a.tracing != nil {
		if err := a.tracing.Trace(&c); err != nil {
			return err
		}
	}
	static, err := a.static()
	if err != nil {
		return err
	}
	c.Sources = append(c.Sources, p.mirrors.Source(static))
	p.loop, err = nodeagent.New(c)
	return err
}

// static returns the source of static pods. Without a folder its list is empty, so that static pods of an earlier
// configuration are stopped and their mirrors deleted.
func (a *agent) static() (source.Source, error) {
	if a.kubelet.StaticPodPath != "" {
		return source.NewFolder(source.FolderConfig{Path: a.kubelet.StaticPodPath, NodeName: a.name})
	}
	none := source.NewStaticPush(runtime.ConfigSourceFile)
	return none, none.Set()
}

// sync returns the configuration of the Syncer.
func (a *agent) sync(ctx context.Context, room nodeResources, events record.EventRecorder) (syncpod.Config, error) {
	k := a.kubelet
	c := syncpod.Config{Owner: cri.Owner{AdoptUnmarked: a.adopt}, Node: syncpod.Node{
		Allocatable: room.allocatable, LogsRoot: k.PodLogsDir, LogLinks: filepath.Join(filepath.Dir(k.PodLogsDir), "containers"),
		Containers: container.Node{NoCPUQuota: !*k.CPUCFSQuota, SeccompRoot: filepath.Join(a.root, "seccomp"), SeccompDefault: *k.SeccompDefault, GroupOOMKill: groupOOMKill(k, cgroupMount), Swap: config.Swap(k, os.DirFS("/"))},
	}}
	c.Node.HostIPs = func() (ips []string) {
		for _, ip := range a.addresses() {
			ips = append(ips, ip.String())
		}
		return ips
	}
	if k.CPUCFSQuotaPeriod != nil {
		c.Node.Containers.CPUPeriod = k.CPUCFSQuotaPeriod.Duration
	}
	if k.CrashLoopBackOff.MaxContainerRestartPeriod != nil {
		c.Limits.MaxBackOff = k.CrashLoopBackOff.MaxContainerRestartPeriod.Duration
		c.Limits.InitialBackOff = min(c.Limits.MaxBackOff, firstBackOff)
	}
	if err := os.MkdirAll(c.Node.LogLinks, 0o755); err != nil {
		return c, fmt.Errorf("podLogsDir: %w", err)
	}
	resolver, err := newResolver(k, a.name, a.log, events)
	if err != nil {
		return c, err
	}
	c.Node.DNS = resolver.dns
	if c.Node.RecursiveReadOnly, err = a.recursiveReadOnly(ctx); err != nil {
		return c, err
	}
	if *k.CgroupsPerQOS {
		c.Extensions.Cgroups, err = a.cgroups(ctx, room.enforced)
	}
	return c, err
}

// images configures image pulls.
func (a *agent) images() (c image.Settings, err error) {
	c.Runtime, c.MaxParallelPulls = pullsOf(a.runtime, a.kubelet), a.parallelPulls()
	c.ShareImages, c.VerifyPreloaded, err = config.Images(a.kubelet)
	return c, err
}

func (a *agent) parallelPulls() int {
	switch {
	case *a.kubelet.SerializeImagePulls:
		return 1
	case a.kubelet.MaxParallelImagePulls != nil:
		return int(*a.kubelet.MaxParallelImagePulls)
	}
	return -1
}

// cgroupMount is the mount point of the cgroup file system.
const cgroupMount = "/sys/fs/cgroup"

// groupOOMKill reports whether the OOM killer must kill all processes in a container at once. That needs cgroup v2,
// whose root has this file.
func groupOOMKill(k *kubelet.KubeletConfiguration, mount string) bool {
	_, err := os.Stat(filepath.Join(mount, "cgroup.controllers"))
	return err == nil && (k.SingleProcessOOMKill == nil || !*k.SingleProcessOOMKill)
}

// recursiveReadOnly returns the runtime handlers that can mount read-only recursively.
func (a *agent) recursiveReadOnly(ctx context.Context) (handlers []string, err error) {
	status, err := a.runtime.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return nil, fmt.Errorf("features of the runtime: %w", err)
	}
	for _, h := range status.RuntimeHandlers {
		if h.GetFeatures().GetRecursiveReadOnlyMounts() {
			handlers = append(handlers, h.Name)
		}
	}
	return handlers, nil
}

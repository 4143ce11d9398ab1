package stats

import (
	"bytes"
	"context"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// A Detail has the figures of cAdvisor for the cgroup of a pod or of a container, which the kernel reports and [Stats]
// does not have. A nil figure is unknown.
type Detail struct {
	Namespace, Pod string
	UID            types.UID
	// Container, ID and Image are empty for a pod's cgroup.
	Container, ID, Image string
	// Path is the cgroup's path, such as "/kubepods/pod1".
	Path string
	// StartTime is when the container was started, or the sandbox created. Time is when the figures were read.
	StartTime, Time time.Time

	// CPU times are in nanoseconds since the start. ThrottledNanoSeconds is the time for which the kernel kept a group from running
	// because it had used its quota.
	UsageNanoSeconds, UserNanoSeconds, SystemNanoSeconds, ThrottledNanoSeconds *uint64
	// Periods counts the periods in which the group ran, and ThrottledPeriods those in which the kernel throttled it.
	Periods, ThrottledPeriods *uint64
	// Memory is in bytes. Limit is nil without a limit.
	UsageBytes, WorkingSetBytes, RSSBytes, CacheBytes, SwapBytes, MappedBytes, LimitBytes *uint64
	// OOMKills counts the processes that the kernel has killed because memory ran out. Processes counts the current processes and
	// threads.
	OOMKills, Processes *uint64
	// Devices has each disk's transfers, in the kernel's order.
	Devices []Device
	// Network has a pod's interfaces; it is nil for a container, and for a pod on the node's network.
	Network []Interface
}

// A Device has the transfers between a cgroup and one disk.
type Device struct {
	// Name is a path such as /dev/sda, or numbers such as 8:0 if the path is unknown.
	Name                                   string
	Reads, ReadBytes, Writes, WrittenBytes uint64
}

// ReadDetails returns the usage of the cgroups of these pods and of their running containers. It omits a cgroup that it
// does not find. With an error it returns the figures that it could read.
func (r *Reader) ReadDetails(ctx context.Context, pods []*runtime.PodStatus) ([]Detail, error) {
	read := &run{files: files{FS: r.config.Root}, now: time.Now(), all: true}
	r.mu.Lock()
	read.finder = r.found
	r.mu.Unlock()
	keys, active := map[string]bool{}, []lack{}
	images := map[string]string{}
	for _, status := range pods {
		sandbox := status.ActiveSandbox()
		if sandbox == nil {
			continue
		}
		p := read.fromRuntime(status, sandbox)
		active = append(active, lack{&p, sandbox})
		keys[podKey(p.UID)], keys[sandbox.ID] = true, true
		for i := range status.Containers {
			c := &status.Containers[i]
			keys[c.ID.ID], images[c.ID.ID] = true, c.Image
		}
	}
	read.hierarchy = hierarchyOf(read.FS)
	read.finder.find(&read.files, read.hierarchy, keys, keys, read.now)
	var details []Detail
	for _, l := range active {
		if err := ctx.Err(); err != nil {
			return details, err
		}
		details = append(details, read.details(l, images)...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = read.finder
	return details, errors.Join(read.files.errs...)
}

// details returns the figures of a pod and of its containers.
func (r *run) details(l lack, images map[string]string) (list []Detail) {
	of := Detail{Namespace: l.pod.Namespace, Pod: l.pod.Name, UID: l.pod.UID, StartTime: l.pod.StartTime, Time: r.now}
	if d, ok := r.detail(podKey(l.pod.UID), of); ok {
		if l.sandbox.NetworkMode != runtime.NamespaceNode {
			if n := r.networkOf(l); n != nil {
				d.Network = n.Interfaces
			}
		}
		list = append(list, d)
	}
	for _, c := range l.pod.Containers {
		of.Container, of.ID, of.Image, of.StartTime = c.Name, c.ID.ID, images[c.ID.ID], c.StartTime
		if d, ok := r.detail(c.ID.ID, of); ok {
			list = append(list, d)
		}
	}
	return list
}

// detail reads one cgroup's figures.
func (r *run) detail(key string, d Detail) (Detail, bool) {
	at, ok := r.finder.known[key]
	if !ok {
		return d, false
	}
	d.Path = "/" + strings.TrimPrefix(at, "/")
	if r.hierarchy.unified {
		r.detailV2(path.Join(r.hierarchy.memory, at), &d)
	} else {
		r.detailV1(at, &d)
	}
	return d, d.UsageNanoSeconds != nil || d.UsageBytes != nil
}

func (r *run) detailV2(dir string, d *Detail) {
	cpu := r.pairs(path.Join(dir, "cpu.stat"))
	d.UsageNanoSeconds, d.UserNanoSeconds, d.SystemNanoSeconds = scaled(cpu["usage_usec"], 1000), scaled(cpu["user_usec"], 1000), scaled(cpu["system_usec"], 1000)
	d.Periods, d.ThrottledPeriods, d.ThrottledNanoSeconds = cpu["nr_periods"], cpu["nr_throttled"], scaled(cpu["throttled_usec"], 1000)
	memory := r.pairs(path.Join(dir, "memory.stat"))
	d.UsageBytes, d.LimitBytes = r.number(path.Join(dir, "memory.current")), r.limit(path.Join(dir, "memory.max"))
	d.RSSBytes, d.CacheBytes, d.MappedBytes = memory["anon"], memory["file"], memory["file_mapped"]
	d.WorkingSetBytes, d.SwapBytes = less(d.UsageBytes, memory["inactive_file"]), r.number(path.Join(dir, "memory.swap.current"))
	d.OOMKills, d.Processes = r.pairs(path.Join(dir, "memory.events"))["oom_kill"], r.number(path.Join(dir, "pids.current"))
	r.devicesV2(path.Join(dir, "io.stat"), d)
}

func (r *run) detailV1(at string, d *Detail) {
	in := func(controller, file string) string { return path.Join(cgroupRoot, controller, at, file) }
	d.UsageNanoSeconds, d.UserNanoSeconds, d.SystemNanoSeconds = r.number(in("cpuacct", "cpuacct.usage")), r.number(in("cpuacct", "cpuacct.usage_user")), r.number(in("cpuacct", "cpuacct.usage_sys"))
	cpu := r.pairs(in("cpu", "cpu.stat"))
	d.Periods, d.ThrottledPeriods, d.ThrottledNanoSeconds = cpu["nr_periods"], cpu["nr_throttled"], cpu["throttled_time"]
	memory := r.pairs(in("memory", "memory.stat"))
	d.UsageBytes, d.LimitBytes = r.number(in("memory", "memory.usage_in_bytes")), r.limit(in("memory", "memory.limit_in_bytes"))
	d.RSSBytes, d.CacheBytes, d.MappedBytes, d.SwapBytes = memory["total_rss"], memory["total_cache"], memory["total_mapped_file"], memory["total_swap"]
	d.WorkingSetBytes = less(d.UsageBytes, memory["total_inactive_file"])
	d.OOMKills, d.Processes = r.pairs(in("memory", "memory.oom_control"))["oom_kill"], r.number(in("pids", "pids.current"))
	r.devicesV1(in("blkio", "blkio.throttle.io_serviced_recursive"), d, func(v *Device) (reads, writes *uint64) { return &v.Reads, &v.Writes })
	r.devicesV1(in("blkio", "blkio.throttle.io_service_bytes_recursive"), d, func(v *Device) (reads, writes *uint64) { return &v.ReadBytes, &v.WrittenBytes })
}

// pairs reads a file whose lines have a key and a number each.
func (f *files) pairs(name string) map[string]*uint64 {
	text, ok := f.read(name)
	if !ok {
		return nil
	}
	found := map[string]*uint64{}
	for line := range bytes.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil && n < noLimit {
			found[key] = &n
		}
	}
	return found
}

// maxDevices limits the disks that are reported for one cgroup.
const maxDevices = 256

// device returns the disk with a name, nil if there are too many.
func device(name string, d *Detail) *Device {
	if i := slices.IndexFunc(d.Devices, func(v Device) bool { return v.Name == name }); i >= 0 {
		return &d.Devices[i]
	}
	if len(d.Devices) >= maxDevices {
		return nil
	}
	d.Devices = append(d.Devices, Device{Name: name})
	return &d.Devices[len(d.Devices)-1]
}

// devicesV2 reads lines such as "8:0 rbytes=1 wbytes=2 rios=3 wios=4".
func (f *files) devicesV2(name string, d *Detail) {
	f.devices(name, d, func(v *Device, words []string) {
		for _, word := range words {
			key, value, _ := strings.Cut(word, "=")
			setNumber(map[string]*uint64{"rbytes": &v.ReadBytes, "wbytes": &v.WrittenBytes, "rios": &v.Reads, "wios": &v.Writes}[key], value)
		}
	})
}

// devicesV1 reads lines such as "8:0 Read 4096".
func (f *files) devicesV1(name string, d *Detail, fields func(*Device) (reads, writes *uint64)) {
	f.devices(name, d, func(v *Device, words []string) {
		if len(words) == 2 {
			reads, writes := fields(v)
			setNumber(map[string]*uint64{"Read": reads, "Write": writes}[words[0]], words[1])
		}
	})
}

// devices calls add for each line in a file that begins with the numbers of a disk, with the rest of the line.
func (f *files) devices(name string, d *Detail, add func(v *Device, words []string)) {
	text, err := f.readAll(name)
	if err != nil {
		f.noteUnlessGone(err)
		return
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || !isNumbers(words[0]) {
			continue
		}
		v := device(f.deviceName(words[0]), d)
		if v == nil {
			break
		}
		add(v, words[1:])
	}
}

// setNumber sets a field to the number in a text. It does nothing for a nil field.
func setNumber(field *uint64, text string) {
	if n, err := strconv.ParseUint(text, 10, 64); field != nil && err == nil {
		*field = n
	}
}

func (f *files) noteUnlessGone(err error) {
	if !isGone(err) {
		f.errs = append(f.errs, err)
	}
}

// isNumbers reports whether a text has the form of a device's numbers. The text may become part of a path.
func isNumbers(text string) bool {
	major, minor, ok := strings.Cut(text, ":")
	return ok && major != "" && minor != "" && strings.Trim(major+minor, "0123456789") == ""
}

// deviceName returns a disk's path by its numbers.
func (f *files) deviceName(numbers string) string {
	text, ok := f.read("sys/dev/block/" + numbers + "/uevent")
	if !ok {
		return numbers
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); ok {
			return "/dev/" + name
		}
	}
	return numbers
}

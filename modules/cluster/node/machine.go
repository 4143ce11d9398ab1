package node

import (
	"bufio"
	"bytes"
	"math"
	"os"
	goruntime "runtime"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/syncpod/eviction"
)

const operatingSystem, architecture = goruntime.GOOS, goruntime.GOARCH

// Machine describes a machine. Unknown fields are empty or zero.
type Machine struct {
	// ID, SystemUUID and BootID identify the machine and its boot.
	ID, SystemUUID, BootID string
	// Kernel is the kernel's version, OS the distribution's name.
	Kernel, OS string
	// CPUs is the number of processors, MemoryBytes the size of memory.
	CPUs        int
	MemoryBytes int64
	// SwapBytes is the swap's size, 0 without swap.
	SwapBytes int64
	// PIDs is the maximum number of processes and threads.
	PIDs int64
	// HugePages maps each page size to the memory that is reserved for pages of that size, both in bytes.
	HugePages map[int64]int64
	// StorageBytes is the size of the file system for logs, emptyDirs and the writable container layers; see
	// [StorageBytes].
	StorageBytes int64
	// AppArmor means that the kernel supports AppArmor profiles.
	AppArmor bool
}

// ReadMachine reads this machine's properties.
func ReadMachine() Machine {
	m := Machine{
		ID: firstLine("/etc/machine-id"), SystemUUID: firstLine("/sys/class/dmi/id/product_uuid"),
		BootID: firstLine("/proc/sys/kernel/random/boot_id"), Kernel: firstLine("/proc/sys/kernel/osrelease"),
		OS: osName("/etc/os-release"), CPUs: cpus("/sys/devices/system/cpu/online"), MemoryBytes: meminfo("MemTotal"), SwapBytes: meminfo("SwapTotal"),
		HugePages: hugePages("/sys/kernel/mm/hugepages"), PIDs: min(number("/proc/sys/kernel/pid_max"), number("/proc/sys/kernel/threads-max")),
		AppArmor: firstLine("/sys/module/apparmor/parameters/enabled") == "Y",
	}
	if m.SystemUUID == "" {
		m.SystemUUID = m.ID
	}
	return m
}

// Capacity returns the machine's processors, memory and huge pages, and maxPods pods.
func (m Machine) Capacity(maxPods int64) v1.ResourceList {
	capacity := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(m.CPUs), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(m.MemoryBytes, resource.BinarySI),
		v1.ResourcePods:   *resource.NewQuantity(maxPods, resource.DecimalSI),
	}
	if m.StorageBytes > 0 {
		capacity[v1.ResourceEphemeralStorage] = *resource.NewQuantity(m.StorageBytes, resource.BinarySI)
	}
	for size, bytes := range m.HugePages {
		name := v1.ResourceHugePagesPrefix + resource.NewQuantity(size, resource.BinarySI).String()
		capacity[v1.ResourceName(name)] = *resource.NewQuantity(bytes, resource.BinarySI)
	}
	return capacity
}

// WithPIDs adds the maximum number of processes to a capacity. No Node reports it and no pod
// requests it, but systemReserved and kubeReserved may reserve a part of it.
func (m Machine) WithPIDs(capacity v1.ResourceList) v1.ResourceList {
	capacity = capacity.DeepCopy()
	if m.PIDs > 0 {
		capacity["pid"] = *resource.NewQuantity(m.PIDs, resource.DecimalSI)
	}
	return capacity
}

// Allocatable returns the capacity minus the reservations. Huge pages also reduce the memory.
func Allocatable(capacity v1.ResourceList, reserved ...v1.ResourceList) v1.ResourceList {
	left := v1.ResourceList{}
	for name, q := range capacity {
		q = q.DeepCopy()
		for _, r := range reserved {
			if of, ok := r[name]; ok {
				q.Sub(of)
			}
		}
		left[name] = atLeastZero(q)
	}
	memory := left[v1.ResourceMemory]
	for name, q := range capacity {
		if strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			memory.Sub(q)
		}
	}
	left[v1.ResourceMemory] = atLeastZero(memory)
	return left
}

// reservedBy are the resources that hard thresholds keep free.
var reservedBy = map[eviction.Signal]v1.ResourceName{
	eviction.MemoryAvailable: v1.ResourceMemory, eviction.NodeFSAvailable: v1.ResourceEphemeralStorage,
}

// Reserved returns the part of a capacity that hard eviction thresholds keep free: memory and
// ephemeral storage, as in a kubelet.
func Reserved(rules eviction.Rules, capacity v1.ResourceList) v1.ResourceList {
	reserved := v1.ResourceList{}
	for _, t := range rules.Thresholds {
		name, ok := reservedBy[t.Signal]
		if _, has := capacity[name]; !ok || !has || t.Grace != 0 {
			continue
		}
		of := capacity[name]
		bytes := t.Value.Of(uint64(max(of.Value(), 0)))
		reserved[name] = *resource.NewQuantity(int64(min(bytes, math.MaxInt64)), resource.BinarySI)
	}
	return reserved
}

func atLeastZero(q resource.Quantity) resource.Quantity {
	if q.Sign() < 0 {
		q.Set(0)
	}
	return q
}

// cpus returns the number of online processors, from a list such as 0-3,8. Without the list it
// returns the number that this process may use, which can be lower.
func cpus(path string) (n int) {
	for part := range strings.SplitSeq(firstLine(path), ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err := strconv.ParseUint(low, 10, 16)
		to, toErr := strconv.ParseUint(high, 10, 16)
		if err != nil || toErr != nil || to < from {
			return goruntime.NumCPU()
		}
		n += int(to-from) + 1
	}
	return n
}

// meminfo returns a value of /proc/meminfo in bytes, 0 if it is missing.
func meminfo(name string) int64 {
	text := readFact("/proc/meminfo")
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 1 && fields[0] == name+":" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

func hugePages(dir string) map[int64]int64 {
	pages := map[int64]int64{}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(e.Name(), "hugepages-"), "kB"), 10, 64)
		if err != nil {
			continue
		}
		count, _ := strconv.ParseInt(firstLine(dir+"/"+e.Name()+"/nr_hugepages"), 10, 64)
		pages[kib<<10] = count * kib << 10
	}
	return pages
}

// maxFact is the maximum size of a file that describes the machine, in bytes.
const maxFact = 64 << 10

// readFact reads a file that describes the machine. It returns nothing if the file is missing, too large or not regular.
func readFact(path string) []byte {
	text, _ := hostfs.ReadPath(path, maxFact) // opening a FIFO would wait for a writer
	return text
}

func firstLine(path string) string {
	text := readFact(path)
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// number returns the number in a file, 0 if it cannot be read.
func number(path string) int64 {
	n, _ := strconv.ParseInt(firstLine(path), 10, 64)
	return n
}

// osName returns the name in an os-release(5) file.
func osName(path string) string {
	text := readFact(path)
	for line := range strings.SplitSeq(string(text), "\n") {
		if name, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(name, `"'`)
		}
	}
	return ""
}

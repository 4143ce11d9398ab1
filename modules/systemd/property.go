package systemd

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	units "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/podsync/podsync/syncpod/cgroup"
)

const (
	// unlimited is systemd's value for no limit.
	unlimited = math.MaxUint64
	// second is a second in microseconds. quantum is the resolution of a quota for each second: systemd rounds down to it.
	second, quantum = 1_000_000, 10_000
)

// unified maps the files of cgroup version 2 to properties.
var unified = map[string]string{"memory.min": "MemoryMin", "memory.low": "MemoryLow"}

// propertiesOf converts a cgroup's settings to its slice's properties. It also sets the properties that have no
// limit, so that no earlier limit stays. Huge pages have no property: package tree writes their files.
func propertiesOf(v cgroup.Version, r cgroup.Resources) ([]units.Property, error) {
	weight, memory := "CPUWeight", "MemoryMax"
	shares := cgroup.SharesToWeight(r.CPUShares)
	if v == cgroup.V1 {
		weight, memory, shares = "CPUShares", "MemoryLimit", r.CPUShares
	}
	quota, period := bandwidth(r)
	list := []units.Property{
		number("CPUQuotaPeriodUSec", period), number("CPUQuotaPerSecUSec", quota),
		number(memory, limit(r.Memory, 1)), number("TasksMax", limit(r.PIDs, 0)),
	}
	if r.CPUShares > 0 {
		list = append(list, number(weight, uint64(shares)))
	}
	if v == cgroup.V1 {
		return list, nil
	}
	for _, file := range slices.Sorted(maps.Keys(r.Unified)) {
		name, ok := unified[file]
		if !ok {
			return nil, fmt.Errorf("systemd: %s has no property", file)
		}
		value, err := strconv.ParseUint(r.Unified[file], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("systemd: %s is %q, want a number of bytes", file, r.Unified[file])
		}
		list = append(list, number(name, value))
	}
	return list, nil
}

// bandwidth returns the CPU time for each second, and the period, in microseconds.
func bandwidth(r cgroup.Resources) (quota, period uint64) {
	if r.CPUQuota == nil || r.CPUPeriod == nil || *r.CPUQuota <= 0 || *r.CPUPeriod <= 0 {
		return unlimited, unlimited
	}
	quota = uint64(*r.CPUQuota) * second / uint64(*r.CPUPeriod)
	return (quota + quantum - 1) / quantum * quantum, uint64(*r.CPUPeriod)
}

// limit returns *n, or unlimited if n is nil or *n is below least.
func limit(n *int64, least int64) uint64 {
	if n == nil || *n < least {
		return unlimited
	}
	return uint64(*n)
}

func number(name string, value uint64) units.Property {
	return units.Property{Name: name, Value: dbus.MakeVariant(value)}
}

// unitOf returns the names of a cgroup's slice and of the slice above it. The latter is "" for the topmost slice.
func unitOf(at string) (name, above string, err error) {
	name = path.Base(at)
	if !strings.HasSuffix(name, ".slice") || !path.IsAbs(at) {
		return "", "", fmt.Errorf("systemd: %q is not the cgroup of a slice", at)
	}
	if above = path.Base(path.Dir(at)); above == "/" {
		above = ""
	}
	return name, above, nil
}

// starting returns the properties that are set only when a slice is created.
func starting(v cgroup.Version, above string) []units.Property {
	on := func(name string, value bool) units.Property {
		return units.Property{Name: name, Value: dbus.MakeVariant(value)}
	}
	io := "IOAccounting"
	if v == cgroup.V1 {
		io = "BlockIOAccounting"
	}
	list := []units.Property{
		units.PropDescription("pods of a node agent"), on("DefaultDependencies", false),
		on("CPUAccounting", true), on("MemoryAccounting", true), on("TasksAccounting", true), on(io, true),
	}
	if above != "" {
		list = append(list, units.PropWants(above))
	}
	return list
}

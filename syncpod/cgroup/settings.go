package cgroup

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Setting is the value of one file of a cgroup.
type Setting struct {
	// Controller is the file's controller, such as cpu: with version 1 its tree's directory.
	Controller string
	// File is the file's name, such as cpu.shares.
	File string
	// Value is the value to write, without a newline.
	Value string
}

// Unlimited reports whether the setting means no limit.
func (s Setting) Unlimited() bool { return s.Value == "-1" || strings.HasPrefix(s.Value, unlimited) }

// Requests reports whether the setting derives from requests.
func (s Setting) Requests() bool { return s.File == sharesFile || s.File == weightFile }

const (
	sharesFile = "cpu.shares"
	weightFile = "cpu.weight"
	// minShares is the lowest weight that the kernel accepts, and maxShares the highest.
	minShares, maxShares = 2, 262144
	memoryMin            = "memory.min"
	memoryLow            = "memory.low"
	// unlimited means no limit in most files.
	unlimited = "max"
	// defaultPeriod is the kernel's accounting period, in microseconds.
	defaultPeriod = 100000
)

// Settings returns the settings for r, in the order in which to write them. It includes resources
// without a limit, to remove earlier limits. pages are the kernel's sizes of huge pages, in bytes;
// with limitPages, the limit is 0 for each size that r does not limit.
func Settings(r Resources, v Version, pages []int64, limitPages bool) []Setting {
	var list []Setting
	if v == V1 {
		list = version1(r)
	} else {
		list = version2(r)
	}
	for _, size := range slices.Sorted(slices.Values(pages)) {
		limit, ok := r.HugePages[size]
		list = append(list, Setting{"hugetlb", PageFile(v, size), amount(v, limit, ok || limitPages)})
	}
	return list
}

func version1(r Resources) []Setting {
	quota, period := bandwidth(r)
	return append(shareOf(r, sharesFile, r.CPUShares), []Setting{
		{"cpu", "cpu.cfs_period_us", number(period)},
		{"cpu", "cpu.cfs_quota_us", number(quota)},
		{"memory", "memory.limit_in_bytes", amount(V1, deref(r.Memory), deref(r.Memory) > 0)},
		{"pids", "pids.max", pidsMax(r.PIDs)},
	}...)
}

func version2(r Resources) []Setting {
	quota, period := bandwidth(r)
	share := "max"
	if quota > 0 {
		share = number(quota)
	}
	list := append(shareOf(r, weightFile, SharesToWeight(r.CPUShares)), []Setting{
		{"cpu", "cpu.max", share + " " + number(period)},
		{"memory", "memory.max", amount(V2, deref(r.Memory), deref(r.Memory) > 0)},
		{"pids", "pids.max", pidsMax(r.PIDs)},
	}...)
	for _, file := range slices.Sorted(maps.Keys(r.Unified)) {
		controller, _, _ := strings.Cut(file, ".")
		list = append(list, Setting{controller, file, r.Unified[file]})
	}
	return list
}

// shareOf returns the setting of the weight. It returns none if there is no weight.
func shareOf(r Resources, file string, weight int64) []Setting {
	if r.CPUShares == 0 {
		return nil
	}
	return []Setting{{"cpu", file, number(weight)}}
}

// SharesToWeight converts shares of version 1 of the interface to a weight of version 2: from 2 to 262144 to the range from 1 to
// 10000 (KEP-2254).
func SharesToWeight(shares int64) int64 {
	shares = min(max(shares, minShares), maxShares)
	return 1 + (shares-minShares)*9999/(maxShares-minShares)
}

// WeightToShares returns the smallest shares of version 1 that [SharesToWeight] converts to a weight of version 2.
func WeightToShares(weight int64) int64 {
	weight = min(max(weight, 1), 10000)
	return minShares + ((weight-1)*(maxShares-minShares)+9998)/9999
}

// bandwidth returns each period's quota, -1 for none.
func bandwidth(r Resources) (quota, period int64) {
	if r.CPUQuota == nil || r.CPUPeriod == nil || *r.CPUQuota <= 0 {
		return -1, defaultPeriod
	}
	return *r.CPUQuota, *r.CPUPeriod
}

// amount formats a limit in bytes, or the value for no limit.
func amount(v Version, bytes int64, limited bool) string {
	switch {
	case limited:
		return number(bytes)
	case v == V1:
		return "-1"
	}
	return unlimited
}

func pidsMax(limit *int64) string {
	if limit == nil {
		return unlimited
	}
	return number(*limit)
}

// PageFile returns the name of the file that limits huge pages of a size in bytes.
func PageFile(v Version, size int64) string {
	unit := "KB"
	switch size >>= 10; {
	case size >= 1<<20:
		unit, size = "GB", size>>20
	case size >= 1<<10:
		unit, size = "MB", size>>10
	}
	name := "hugetlb." + number(size) + unit
	if v == V1 {
		return name + ".limit_in_bytes"
	}
	return name + ".max"
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func deref(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

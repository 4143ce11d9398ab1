package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/cgroup"
	"github.com/podsync/podsync/syncpod/podspec/qos"
)

// cgroupCase is a pod made at random, and the cgroup that kubelet v1.36.2 made for
// it. Null values in Want are unset; its names are below the root kubepods.
type cgroupCase struct {
	Name                    string
	Pod                     *v1.Pod
	CPUCFSQuota             bool
	CPUCFSQuotaPeriodMicros int64
	MemoryReservation       bool

	Want map[string]any
}

// checkCgroup compares one recorded line with the names and settings that podsync
// has for the same pod.
func checkCgroup(line []byte) (outcome, error) {
	var c cgroupCase
	if err := json.Unmarshal(line, &c); err != nil {
		return outcome{}, fmt.Errorf("cgroup: %w", err)
	}
	if c.Pod == nil || c.Name == "" || c.Want == nil {
		return outcome{}, errors.New("cgroup: the line has no name, pod or answer")
	}
	got, err := c.got()
	if err != nil {
		return outcome{}, fmt.Errorf("cgroup %s: %w", c.Name, err)
	}
	return outcome{name: c.Name, diff: sideBySide(compareTrees("", c.Want, got))}, nil
}

// got is what podsync says, in the form of the record.
func (c *cgroupCase) got() (any, error) {
	class := qos.Class(c.Pod)
	name, err := cgroup.PodName(cgroup.Name{cgroup.DefaultRoot}, class, c.Pod.UID)
	if err != nil {
		return nil, err
	}
	r, err := cgroup.ResourceConfigForPod(cgroup.Input{
		Pod: c.Pod, NoCPUQuota: !c.CPUCFSQuota, CPUPeriod: time.Duration(c.CPUCFSQuotaPeriodMicros) * time.Microsecond,
		MemoryReservation: c.MemoryReservation,
	})
	if err != nil {
		return nil, err
	}
	pages := map[string]int64{}
	for size, limit := range r.HugePages {
		pages[strconv.FormatInt(size, 10)] = limit
	}
	return jsonTree(map[string]any{
		"qos": class, "cgroupfs": name.Path(cgroup.Cgroupfs), "systemd": name.Path(cgroup.Systemd),
		"cpuShares": r.CPUShares, "cpuWeight": cgroup.SharesToWeight(r.CPUShares), "cpuQuota": r.CPUQuota, "cpuPeriod": r.CPUPeriod,
		"memory": r.Memory, "hugePageLimits": pages, "unified": r.Unified,
	}), nil
}

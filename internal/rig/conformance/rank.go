package main

import (
	"encoding/json"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/eviction"
)

// rankCase are random pods, their usage, and the order in which kubelet
// v1.36.2 would evict them under each kind of pressure.
type rankCase struct {
	Name  string
	Pods  []*v1.Pod
	Stats map[types.UID]rankStats

	Want map[string][]types.UID
}

// rankStats is the usage of a pod, in the form of the kubelet's stats API.
type rankStats struct {
	Memory       struct{ WorkingSetBytes *uint64 }
	ProcessStats struct {
		Count *uint64 `json:"process_count"`
	} `json:"process_stats"`
	Containers []struct {
		Name         string
		RootFS, Logs rankDisk
	}
	Volumes []struct {
		Name string
		rankDisk
	} `json:"volume"`
}

type rankDisk struct{ UsedBytes, InodesUsed *uint64 }

func (d rankDisk) usage() eviction.DiskUsage {
	return eviction.DiskUsage{Bytes: d.UsedBytes, Inodes: d.InodesUsed}
}

// checkRank compares one recorded line with the order that podsync has for the same pods.
func checkRank(line []byte) (outcome, error) {
	var c rankCase
	if err := json.Unmarshal(line, &c); err != nil {
		return outcome{}, fmt.Errorf("rank: %w", err)
	}
	if len(c.Pods) == 0 || c.Name == "" || c.Want == nil {
		return outcome{}, errors.New("rank: the line has no name, pods or answer")
	}
	return outcome{name: c.Name, diff: sideBySide(compareTrees("", jsonTree(c.Want), jsonTree(c.got())))}, nil
}

// got is what podsync says, in the form of the record.
func (c *rankCase) got() map[string][]types.UID {
	candidates := c.candidates()
	order := func(s eviction.Signal, on eviction.Layout) []types.UID {
		var uids []types.UID
		for _, p := range eviction.Rank(candidates, s, on) {
			uids = append(uids, p.Pod.UID)
		}
		return uids
	}
	return map[string][]types.UID{
		"memory":              order(eviction.MemoryAvailable, eviction.OneDisk),
		"pids":                order(eviction.PIDAvailable, eviction.OneDisk),
		"nodefs":              order(eviction.NodeFSAvailable, eviction.OneDisk),
		"nodefsInodes":        order(eviction.NodeFSInodesFree, eviction.OneDisk),
		"imagefs":             order(eviction.ImageFSAvailable, eviction.ImageDisk),
		"nodefsBesideImagefs": order(eviction.NodeFSAvailable, eviction.ImageDisk),
	}
}

func (c *rankCase) candidates() []eviction.Candidate {
	var list []eviction.Candidate
	for _, pod := range c.Pods {
		candidate := eviction.Candidate{Pod: pod}
		if s, ok := c.Stats[pod.UID]; ok {
			candidate.Usage = s.usage()
		}
		list = append(list, candidate)
	}
	return list
}

func (s *rankStats) usage() *eviction.Usage {
	u := &eviction.Usage{MemoryBytes: s.Memory.WorkingSetBytes, Processes: s.ProcessStats.Count}
	for _, c := range s.Containers {
		u.Containers = append(u.Containers, eviction.ContainerUsage{Name: c.Name, RootFS: c.RootFS.usage(), Logs: c.Logs.usage()})
	}
	for _, v := range s.Volumes {
		u.Volumes = append(u.Volumes, eviction.VolumeUsage{Name: v.Name, DiskUsage: v.usage()})
	}
	return u
}

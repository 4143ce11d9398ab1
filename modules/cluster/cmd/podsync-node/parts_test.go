package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/modules/cluster/node"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/eviction"
)

// N3: by default, a log is rotated once it exceeds a kubelet's maximum size.
func TestN3_LogsAreRotated(t *testing.T) {
	onSite(t, func(s *site) {
		s.furnish()
		s.boot()
		s.sleep(30 * time.Second)
		log := filepath.Join(s.root, "logs", "pods", "default_same_uid-same", "app", "0.log")
		must.Do(s, os.WriteFile(log, bytes.Repeat([]byte("2026-01-01T00:00:00.000000000Z stdout F line\n"), 300_000), 0o600))
		s.sleep(time.Minute)
		files := must.Get(filepath.Glob(log + ".*"))(s)
		if len(files) != 1 {
			s.Errorf("rotated files: %q, want one", files)
		}
	})
}

// A mount is recursively read-only if the runtime reports that it supports that, and the Node advertises it.
func TestRecursiveReadOnlyByTheRuntime(t *testing.T) {
	onSite(t, func(s *site) {
		s.furnish()
		for mode, name := range map[v1.RecursiveReadOnlyMode]string{v1.RecursiveReadOnlyEnabled: "enabled", v1.RecursiveReadOnlyIfPossible: "possible"} {
			pod := podOf(name, "registry.test/app:1")
			pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
			pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data", ReadOnly: true, RecursiveReadOnly: &mode}}
			s.create(pod)
		}
		s.boot()
		s.sleep(30 * time.Second)
		s.wantRunning("changed", "deleted", "enabled", "possible", "same")
		for _, name := range []string{"enabled", "possible"} {
			mounts := s.pod(name).Status.ContainerStatuses[0].VolumeMounts
			if len(mounts) != 1 || mounts[0].RecursiveReadOnly == nil || *mounts[0].RecursiveReadOnly != v1.RecursiveReadOnlyEnabled {
				s.Errorf("%s: the mounts are %+v", name, mounts)
			}
		}
	})
}

// The start of the node and its conditions are recorded as events.
func TestNodeEventsAreRecorded(t *testing.T) {
	onSite(t, func(s *site) {
		s.events.Events = make(chan string, 100)
		s.boot()
		s.sleep(time.Minute)
		var events []string
		for range len(s.events.Events) {
			events = append(events, <-s.events.Events)
		}
		for _, want := range []string{"Normal Starting Starting kubelet.", "Normal NodeReady Node n1 status is now: NodeReady"} {
			if !slices.Contains(events, want) {
				s.Errorf("the events are %q, want %q", events, want)
			}
		}
	})
}

// The OOM killer kills all processes of a container together if the kernel can, unless the configuration disables that.
func TestGroupOOMKill(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(second, "cgroup.controllers"), []byte("cpu memory\n"), 0o600))
	for _, tt := range []struct {
		mount  string
		single *bool
		want   bool
	}{{first, nil, false}, {second, nil, true}, {second, new(false), true}, {second, new(true), false}} {
		if got := groupOOMKill(&kubelet.KubeletConfiguration{SingleProcessOOMKill: tt.single}, tt.mount); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// N4: pods cannot request reserved resources, processes included. The limit of the cgroup of all pods includes the
// amounts that hard evictions keep free, so that pods are evicted before the kernel kills processes.
func TestN4_ReservedResources(t *testing.T) {
	a := &agent{kubelet: &kubelet.KubeletConfiguration{
		SystemReserved: map[string]string{"cpu": "500m", "memory": "1Gi", "pid": "1000"}, KubeReserved: map[string]string{"pid": "500"},
	}}
	a.policy.Hard = map[eviction.Signal]string{"memory.available": "1Gi"}
	machine := node.Machine{CPUs: 4, MemoryBytes: 8 << 30, PIDs: 32768}
	room := must.Get(a.nodeResources(machine, machine.Capacity(110)))(t)
	if pids := room.enforced["pid"]; pids.Value() != 32768-1500 || room.enforced.Memory().Value() != 7<<30 || room.enforced.Cpu().MilliValue() != 3500 {
		t.Errorf("enforced is %v", room.enforced)
	}
	if _, ok := room.allocatable["pid"]; ok || room.allocatable.Memory().Value() != 6<<30 {
		t.Errorf("allocatable is %v", room.allocatable)
	}
}

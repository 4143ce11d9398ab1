package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/podsync/modules/cluster/config"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/cgroup"
)

// systemCgroup creates a cgroup in the trees of the kernel, and returns its path and the files of its memory and process limits.
func systemCgroup(t *testing.T) (name, memory, pids string) {
	t.Helper()
	name = fmt.Sprintf("/podsync-test-system-%d", os.Getpid())
	trees, memory, pids := []string{"cpu", "memory", "pids"}, "memory/"+name+"/memory.limit_in_bytes", "pids/"+name+"/pids.max"
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		trees, memory, pids = []string{""}, name+"/memory.max", name+"/pids.max"
	}
	for _, tree := range trees {
		dir := filepath.Join(cgroupMount, tree, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Skip("needs cgroups that can be written: ", err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		})
	}
	return name, filepath.Join(cgroupMount, memory), filepath.Join(cgroupMount, pids)
}

// enforceNodeAllocatable limits the cgroups of the machine that the configuration names. The node does not start if one
// of them does not exist.
func TestReservationsAreEnforced(t *testing.T) {
	name, memory, pids := systemCgroup(t)
	for group, want := range map[string]string{name: "", name + "/missing": "enforceNodeAllocatable: "} {
		a := &agent{options: options{root: t.TempDir()}}
		file := filepath.Join(t.TempDir(), "config.yaml")
		text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix:///critest.sock\n" +
			"enforceNodeAllocatable: [pods, system-reserved]\nsystemReserved: {memory: 64Mi, pid: '100'}\nsystemReservedCgroup: " + group + "\n"
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		var err error
		if a.kubelet, _, err = config.Load(config.Sources{File: file}); err != nil {
			t.Fatal(err)
		}
		if _, err = a.cgroupsWith(t.Context(), cgroup.Cgroupfs, nil); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want an error of %q", group, err, want)
		}
	}
	for file, want := range map[string]string{memory: "67108864", pids: "100"} {
		text, err := os.ReadFile(file)
		if got := strings.TrimSpace(string(text)); err != nil || got != want {
			t.Errorf("%s holds %q, %v, want %s", file, got, err, want)
		}
	}
}

package stats_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/stats"
)

const benchPods = 100

// manyPods returns pods of two containers each, and their cgroups.
func manyPods() ([]*runtime.PodStatus, fstest.MapFS) {
	tree := layouts[0].tree()
	var pods []*runtime.PodStatus
	for i := range benchPods {
		p := &runtime.PodStatus{UID: types.UID(fmt.Sprint("u", i)), Name: "web", Namespace: "default"}
		at := "kubepods/burstable/pod" + string(p.UID)
		p.Sandboxes = []runtime.SandboxStatus{{ID: fmt.Sprintf("sand%d", i), State: runtime.SandboxReady}}
		layouts[0].add(tree, at, 5, 3000, 1000, 10000)
		layouts[0].add(tree, at+"/"+p.Sandboxes[0].ID, 1, 100, 1, 0)
		tree["sys/fs/cgroup/"+at+"/"+p.Sandboxes[0].ID+"/cgroup.procs"] = file("77\n")
		for j := range 2 {
			id := fmt.Sprintf("cont%d-%d", i, j)
			layouts[0].add(tree, at+"/"+id, 5, 3000, 1000, 10000)
			p.Containers = append(p.Containers, runtime.ContainerStatus{Name: fmt.Sprint(j), ID: runtime.ContainerID{Type: "t", ID: id}, State: runtime.ContainerRunning})
		}
		pods = append(pods, p)
	}
	return pods, tree
}

// BenchmarkReadCgroups reads a node of 100 pods from files, because the runtime reports no stats.
func BenchmarkReadCgroups(b *testing.B) {
	pods, tree := manyPods()
	dir := b.TempDir()
	for name, f := range tree {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), f.Data, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	bench(b, &statsRuntime{}, os.DirFS(dir), pods)
}

// BenchmarkReadRuntime reads a node of 100 pods from a runtime that reports stats, over gRPC.
func BenchmarkReadRuntime(b *testing.B) {
	_, conn := critest.Start(b, critest.Config{})
	client := cri.NewClient(conn)
	var pods []*runtime.PodStatus
	for i := range benchPods {
		pods = append(pods, runPod(b, client, i))
	}
	bench(b, client, proc, pods)
}

func runPod(b *testing.B, client *cri.Client, i int) *runtime.PodStatus {
	b.Helper()
	uid := fmt.Sprint("u", i)
	config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: uid, Namespace: "default", Uid: uid}, LogDirectory: "/var/log/pods/" + uid}
	sandbox, err := client.RunPodSandbox(b.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		b.Fatal(err)
	}
	status := &runtime.PodStatus{UID: types.UID(uid), Name: uid, Namespace: "default"}
	status.Sandboxes = []runtime.SandboxStatus{{ID: sandbox.PodSandboxId, State: runtime.SandboxReady, NetworkMode: runtime.NamespaceNode}}
	for j := range 2 {
		name := fmt.Sprint("app", j)
		image := &runtimeapi.ImageSpec{Image: "registry.test/app:1"}
		if _, err := client.PullImage(b.Context(), &runtimeapi.PullImageRequest{Image: image}); err != nil {
			b.Fatal(err)
		}
		c, err := client.CreateContainer(b.Context(), &runtimeapi.CreateContainerRequest{
			PodSandboxId: sandbox.PodSandboxId, SandboxConfig: config,
			Config: &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: image, LogPath: name + ".log"},
		})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := client.StartContainer(b.Context(), &runtimeapi.StartContainerRequest{ContainerId: c.ContainerId}); err != nil {
			b.Fatal(err)
		}
		status.Containers = append(status.Containers, runtime.ContainerStatus{Name: name, ID: runtime.ContainerID{Type: "critest", ID: c.ContainerId}, State: runtime.ContainerRunning})
	}
	return status
}

func bench(b *testing.B, rt stats.Runtime, root fs.FS, pods []*runtime.PodStatus) {
	r := reader(b, rt, root)
	before := spent(b)
	for b.Loop() {
		got, err := r.ReadCPUAndMemory(b.Context(), pods)
		if err != nil {
			b.Fatal(err)
		}
		if p := got.Pods[benchPods-1]; len(got.Pods) != benchPods || p.CPU == nil || len(p.Containers) != 2 || p.Containers[1].Memory == nil {
			b.Fatalf("%s, want %v pods with CPU, and with memory of both containers", bare(b, p), benchPods)
		}
	}
	b.ReportMetric(float64(spent(b)-before)/float64(b.N)/1e6, "cpu-ms/op")
}

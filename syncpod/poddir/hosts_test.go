package poddir_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/poddir"
)

const loopback = `127.0.0.1	localhost
::1	localhost ip6-localhost ip6-loopback
fe00::0	ip6-localnet
fe00::0	ip6-mcastprefix
fe00::1	ip6-allnodes
fe00::2	ip6-allrouters
`

func hostsOf(t *testing.T, d *poddir.Dirs, req container.MountRequest) string {
	t.Helper()
	mount := mountsOf(t, d, req)["/etc/hosts"]
	if mount == nil {
		return "not mounted"
	}
	content := must.Get(os.ReadFile(mount.HostPath))(t)
	return string(content)
}

func TestHosts(t *testing.T) {
	nodeHosts := filepath.Join(t.TempDir(), "hosts")
	must.Do(t, os.WriteFile(nodeHosts, []byte("192.0.2.1 node"), 0o600))
	both := []string{"10.0.0.7", "fd00::7"}
	aliases := []v1.HostAlias{{IP: "192.0.2.9", Hostnames: []string{"b.example", "b"}}, {IP: "192.0.2.8", Hostnames: []string{"a.example"}}}
	for _, tt := range []struct {
		name string
		edit func(*v1.Pod)
		ips  []string
		want string
	}{
		{"a pod without an address", func(*v1.Pod) {}, nil, "not mounted"},
		{"one address", func(*v1.Pod) {}, both[:1], "# Kubernetes-managed hosts file.\n" + loopback + "10.0.0.7\tweb-0\n"},
		{"two addresses and a domain", func(p *v1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "www", "front" }, both,
			"# Kubernetes-managed hosts file.\n" + loopback +
				"10.0.0.7\twww.front.shop.svc.cluster.local\twww\nfd00::7\twww.front.shop.svc.cluster.local\twww\n"},
		{"aliases, in order", func(p *v1.Pod) { p.Spec.HostAliases = aliases }, both[:1],
			"# Kubernetes-managed hosts file.\n" + loopback + "10.0.0.7\tweb-0\n" +
				"\n# Entries added by HostAliases.\n192.0.2.9\tb.example\tb\n192.0.2.8\ta.example\n"},
		{"the node's network", func(p *v1.Pod) { p.Spec.HostNetwork, p.Spec.HostAliases = true, aliases[1:] }, nil,
			"# Kubernetes-managed hosts file (host network).\n192.0.2.1 node\n" +
				"\n# Entries added by HostAliases.\n192.0.2.8\ta.example\n"},
		{"a mount there already", func(p *v1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "h", MountPath: "/etc//hosts"}}
		}, both, "not mounted"},
		{"a mount elsewhere", func(p *v1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "h", MountPath: "/etc"}}
		}, both[:1], "# Kubernetes-managed hosts file.\n" + loopback + "10.0.0.7\tweb-0\n"},
	} {
		d := newDirs(t, poddir.Config{ClusterDomain: "cluster.local", NodeHosts: nodeHosts, Volumes: &volumes{}})
		pod := webPod()
		tt.edit(pod)
		if got := hostsOf(t, d, request(pod, 0, tt.ips...)); got != tt.want {
			t.Errorf("%s:\n%s\nwant:\n%s", tt.name, got, tt.want)
		}
	}
}

func TestHostsOfANodeWithoutAny(t *testing.T) {
	d := newDirs(t, poddir.Config{NodeHosts: filepath.Join(t.TempDir(), "none")})
	pod := webPod()
	pod.Spec.HostNetwork = true
	if got := hostsOf(t, d, request(pod, 0)); got != "# Kubernetes-managed hosts file (host network).\n" {
		t.Errorf("%q, want %q", got, "# Kubernetes-managed hosts file (host network).\n")
	}
}

func TestHostsOfAPodWithABadName(t *testing.T) {
	d := newDirs(t, poddir.Config{})
	pod := webPod()
	pod.Spec.Hostname = "www\n192.0.2.66 bank.example"
	if _, err := d.Mounts(t.Context(), request(pod, 0, "10.0.0.7")); err == nil || !strings.Contains(err.Error(), "spec.hostname") {
		t.Errorf("%v, want the field named", err)
	}
}

// The file has the pod's current addresses. A process that has the old file open can read it to its
// end. An unchanged file is not written.
func TestHostsFollowTheAddress(t *testing.T) {
	d := newDirs(t, poddir.Config{})
	pod := webPod()
	path := mountsOf(t, d, request(pod, 0, "10.0.0.7"))["/etc/hosts"].HostPath
	first := must.Get(os.Stat(path))(t)
	hostsOf(t, d, request(pod, 1, "10.0.0.7"))
	if same, _ := os.Stat(path); !os.SameFile(first, same) {
		t.Error("a file that says the same was replaced")
	}
	open := must.Get(os.Open(path))(t)
	defer open.Close()
	if got := hostsOf(t, d, request(pod, 2, "10.0.0.8")); !strings.Contains(got, "10.0.0.8\tweb-0\n") || strings.Contains(got, "10.0.0.7") {
		t.Errorf("after a change of address:\n%s", got)
	}
	old := make([]byte, 4096)
	n, _ := open.Read(old)
	if !strings.HasSuffix(string(old[:n]), "10.0.0.7\tweb-0\n") {
		t.Errorf("who read the old file now has\n%s", old[:n])
	}
	if second, _ := os.Stat(path); os.SameFile(first, second) {
		t.Error("the file was written in place")
	}
}

// A container that runs keeps the file that it has mounted, and can write to it. However often the
// file is replaced for others, its own has a name in the pod's directory, where it counts as storage
// of the pod; and the number of such files does not grow.
func TestReplacedHostsFileKeepsAName(t *testing.T) {
	root := t.TempDir()
	d := newDirs(t, poddir.Config{Root: root})
	pod := webPod()
	pod.Spec.Containers = append(pod.Spec.Containers, *pod.Spec.Containers[0].DeepCopy())
	pod.Spec.Containers[1].Name = "crashes"
	requestOf := func(i, n int) container.MountRequest {
		return container.MountRequest{Pod: pod, Container: &pod.Spec.Containers[i], PodIPs: []string{fmt.Sprintf("10.0.0.%d", n)}}
	}
	at := mountsOf(t, d, requestOf(0, 1))["/etc/hosts"].HostPath
	mountsOf(t, d, requestOf(1, 2)) // before the runtime starts the first container and mounts its file
	mounted := must.Get(os.OpenFile(at, os.O_WRONLY, 0))(t)
	defer mounted.Close()
	for n := range 20 {
		at := mountsOf(t, d, requestOf(1, 3+n))["/etc/hosts"].HostPath
		must.Do(t, os.WriteFile(at, []byte("what a container writes"), 0o600))
	}
	must.Get(mounted.Write(make([]byte, 1<<20)))(t)
	want := must.Get(mounted.Stat())(t)
	found, files := 0, 0
	must.Do(t, filepath.WalkDir(filepath.Join(root, "pods/u-1"), func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.Contains(e.Name(), "hosts") {
			return err
		}
		files++
		info, err := e.Info()
		if err == nil && os.SameFile(info, want) {
			found++
		}
		return err
	}))
	if found != 1 || files != 3 {
		t.Errorf("the file of the container that runs has %d names, and there are %d files; want 1, and one for each container and one more", found, files)
	}
	if got := hostsOf(t, d, requestOf(0, 50)); !strings.Contains(got, "10.0.0.50\tweb-0\n") {
		t.Errorf("its next instance has\n%s", got)
	}
	must.Do(t, d.RemovePod(t.Context(), pod.UID))
}

// The containers of a pod share one file: each sees the changes of the others.
func TestHostsAreShared(t *testing.T) {
	d := newDirs(t, poddir.Config{})
	pod := webPod()
	pod.Spec.Containers = append(pod.Spec.Containers, *pod.Spec.Containers[0].DeepCopy())
	pod.Spec.Containers[1].Name = "other"
	var files []fs.FileInfo
	for i := range pod.Spec.Containers {
		req := container.MountRequest{Pod: pod, Container: &pod.Spec.Containers[i], PodIPs: []string{"10.0.0.7"}}
		info := must.Get(os.Stat(mountsOf(t, d, req)["/etc/hosts"].HostPath))(t)
		files = append(files, info)
	}
	if !os.SameFile(files[0], files[1]) {
		t.Error("each container has a file of its own")
	}
}

// Containers of a pod may be made side by side.
func TestHostsWrittenSideBySide(t *testing.T) {
	d := newDirs(t, poddir.Config{})
	pod := webPod()
	pod.Spec.Containers = nil
	for i := range 8 {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: fmt.Sprintf("c%d", i)})
	}
	var group sync.WaitGroup
	for i := range pod.Spec.Containers {
		group.Go(func() {
			for n := range 20 {
				req := container.MountRequest{Pod: pod, Container: &pod.Spec.Containers[i], PodIPs: []string{fmt.Sprintf("10.0.%d.%d", i, n)}}
				m, err := d.Mounts(t.Context(), req)
				if err != nil {
					t.Error(err)
					return
				}
				content, err := os.ReadFile(m.Mounts[0].HostPath)
				if err != nil || !strings.HasSuffix(string(content), "\tweb-0\n") || !strings.HasPrefix(string(content), "# Kubernetes-managed hosts file.\n") {
					t.Errorf("%v, half a file:\n%s", err, content)
				}
			}
		})
	}
	group.Wait()
}

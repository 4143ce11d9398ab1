package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// TestCgroups: a container of a burstable pod is in the same cgroup as with a kubelet, with the pod's limits, and no cgroup
// of it is left at the end.
func TestCgroups(t *testing.T) {
	mount, file, limited := "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "67108864"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		mount, file = "/sys/fs/cgroup", "memory.max"
	}
	onNodes(t, func(n *node) {
		root := fmt.Sprintf("podsync-e2e-%d-%s", os.Getpid(), filepath.Base(filepath.Dir(n.endpoint)))
		n.Cleanup(func() { removeTree(n, root) })
		a := n.start("-cgroups", root, "-drain")
		p := a.pod(n, "burstable", `
containers:
- name: app
  image: localhost/busybox:e2e
  command: [sleep, infinity]
  resources: {requests: {cpu: 10m}, limits: {memory: 64Mi}}
`)
		app := p.running("app", 0)
		at := fmt.Sprintf("%s/burstable/pod%s", root, p.sandboxes()[0].GetMetadata().GetUid())
		if got := n.cgroupOf(app.GetId()); !strings.Contains(got, "/"+at+"/") {
			n.Errorf("app is in\n%swant it in %s", got, at)
		}
		text := must.Get(os.ReadFile(filepath.Join(mount, at, file)))(n)
		if got := strings.TrimSpace(string(text)); got != limited {
			n.Errorf("%s of the pod is %s, want %s", file, got, limited)
		}
		p.delete()
		p.gone()
		n.eventually(func() error {
			if _, err := os.Stat(filepath.Join(mount, at)); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("the cgroup of the pod is still there: %v", err)
			}
			return nil
		})
	})
}

// cgroupOf returns the kernel's entry of a container's process.
func (n *node) cgroupOf(container string) string {
	n.Helper()
	resp := must.Get(n.runtime.ContainerStatus(n.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: container, Verbose: true}))(n)
	var about struct{ Pid int }
	must.Do(n, json.Unmarshal([]byte(resp.GetInfo()["info"]), &about))
	text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", about.Pid)))(n)
	return string(text)
}

// removeTree removes the cgroups that remain after all pods have been removed.
func removeTree(n *node, root string) {
	trees := must.Get(filepath.Glob("/sys/fs/cgroup/*/" + root))(n)
	for _, top := range append(trees, "/sys/fs/cgroup/"+root) {
		for _, dir := range []string{"burstable", "besteffort", ""} {
			if err := os.Remove(filepath.Join(top, dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
				n.Error(err)
			}
		}
	}
}

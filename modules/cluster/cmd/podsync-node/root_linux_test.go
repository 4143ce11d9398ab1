package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// startWithoutCluster starts a node with a root directory below dir, in its own process. The node exits because it has no
// kubeconfig. startWithoutCluster returns the log.
func startWithoutCluster(t *testing.T, dir string, maxOpenFiles int, attr *syscall.SysProcAttr) string {
	t.Helper()
	config := filepath.Join(dir, "config.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix:///nowhere\noomScoreAdj: 0\n" +
		fmt.Sprintf("maxOpenFiles: %d\n", maxOpenFiles) + "failCgroupV1: false\nfailSwapOn: false\n"
	must.Do(t, os.WriteFile(config, []byte(text), 0o600))
	args := []string{"--config=" + config, "--kubeconfig=" + filepath.Join(dir, "no-kubeconfig"), "--root-dir=" + filepath.Join(dir, "root"), "--hostname-override=n1", "--node-ip=127.0.0.1"}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), nodeArgs+"="+strings.Join(args, "\n"))
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		t.Skipf("needs user namespaces: %v", err)
	}
	if !bytes.Contains(out, []byte("no-kubeconfig")) {
		t.Errorf("want an end for lack of a kubeconfig:\n%s", out)
	}
	return string(out)
}

// mountsAt returns the lines of the mount table for a mount point.
func mountsAt(t *testing.T, point string) (lines []string) {
	t.Helper()
	text := must.Get(os.ReadFile("/proc/self/mountinfo"))(t)
	for line := range strings.Lines(string(text)) {
		if strings.Fields(line)[4] == point {
			lines = append(lines, line)
		}
	}
	return lines
}

// privateDir returns a directory in a private mount.
func privateDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	must.Do(t, syscall.Mount("", dir, "", syscall.MS_PRIVATE, ""))
	return dir
}

// The root directory is a shared mount after the first start of the node, and later starts do not mount it again.
func TestRootDirIsShared(t *testing.T) {
	dir := privateDir(t)
	for range 2 {
		startWithoutCluster(t, dir, 512, nil)
		if at := mountsAt(t, filepath.Join(dir, "root")); len(at) != 1 || !strings.Contains(at[0], " shared:") {
			t.Errorf("the mounts of the root are %q, want one that is shared", at)
		}
	}
}

// A node whose limits the machine refuses logs a warning, and continues.
func TestLimitsThatTheMachineRefuses(t *testing.T) {
	log := startWithoutCluster(t, privateDir(t), 1<<40, nil)
	if !strings.Contains(log, "Warning: the machine refuses limits of the configuration") || !strings.Contains(log, "maxOpenFiles: operation not permitted") {
		t.Errorf("want a warning that names the field:\n%s", log)
	}
}

// A node without the right to mount logs a warning, and continues.
func TestRootDirWithoutTheRightToMount(t *testing.T) {
	dir := privateDir(t)
	log := startWithoutCluster(t, dir, 512, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER})
	if !strings.Contains(log, "Warning: volume mounts with mountPropagation or recursiveReadOnly may fail") || !strings.Contains(log, filepath.Join(dir, "root")) {
		t.Errorf("want a warning that names the directory:\n%s", log)
	}
	if at := mountsAt(t, filepath.Join(dir, "root")); len(at) > 0 {
		t.Errorf("the mounts of the root are %q", at)
	}
}

//go:build unix

package e2e

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const nobody = 65534

// TestAgentExits: an agent that cannot work exits with a code for the reason, and a message that says what to do.
func TestAgentExits(t *testing.T) {
	runtime := endpoints(t)[0]
	for _, test := range []struct {
		name    string
		runtime string
		args    []string
		uid     uint32
		code    int
		words   string
	}{
		{"NoManifests", runtime, []string{"-manifests", ""}, 0, 2, "-manifests"},
		{"NoSuchFlag", runtime, []string{"-no-such-flag"}, 0, 2, "-no-such-flag"},
		{"NoPermission", runtime, nil, nobody, 3, "as root"},
		{"NoRuntime", "unix:///nowhere/containerd.sock", nil, 0, 4, "/run/containerd/containerd.sock"},
		{"NotARuntime", serverOfNothing(t), nil, 0, 5, "CRI"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			binary := must.Get(nodeAgent())(t)
			dir := t.TempDir()
			must.Do(t, errors.Join(os.Chown(dir, int(test.uid), -1), os.Chmod(filepath.Dir(dir), 0o755)))
			args := []string{"-runtime", test.runtime, "-manifests", dir, "-root", dir, "-pod-logs", dir, "-node", nodeName}
			cmd := exec.CommandContext(t.Context(), binary, append(args, test.args...)...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: test.uid, Gid: test.uid}}
			out, err := cmd.CombinedOutput()
			if err != nil && !errors.As(err, new(*exec.ExitError)) {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != test.code || !strings.Contains(string(out), test.words) {
				t.Errorf("exit code %d, not %d:\n%s", code, test.code, out)
			}
		})
	}
}

// serverOfNothing returns the endpoint of a gRPC server without services.
func serverOfNothing(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "grpc.sock")
	listener := must.Get(net.Listen("unix", path))(t)
	server := grpc.NewServer()
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return "unix://" + path
}

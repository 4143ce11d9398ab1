package conformance

import (
	"os"
	"path/filepath"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var fileRules = []rule{
	{"mount-file", "What a process writes to a file that is mounted into its container, the node can read once it has exited: a termination message.", checkMountFile},
	{"mount-directory", "Containers of a pod share a directory that is mounted into both.", checkMountDirectory},
	{"mount-read-only", "A read-only mount can be read and not written.", checkMountReadOnly},
	{"mounts-told", "ContainerStatus returns the mounts.", checkMountsTold},
}

// file creates a file on the node.
func (b *bench) file(name, content string) string {
	b.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		b.Fatal(err)
	}
	return path
}

func mounted(hostPath, containerPath string, readOnly bool) change[runtimeapi.ContainerConfig] {
	return func(c *runtimeapi.ContainerConfig) {
		c.Mounts = append(c.Mounts, &runtimeapi.Mount{HostPath: hostPath, ContainerPath: containerPath, Readonly: readOnly})
	}
}

func checkMountFile(b *bench) {
	path := b.file("message", "")
	id := b.runSandbox(0).run(script("echo -n bye > /dev/termination-log; exit 3"), mounted(path, "/dev/termination-log", false))
	b.wantExit(id, 3)
	if got, err := os.ReadFile(path); err != nil || string(got) != "bye" {
		b.broken("it has %q, %v", got, err)
	}
}

func checkMountDirectory(b *bench) {
	dir := filepath.Join(b.dir, "shared")
	if err := os.Mkdir(dir, 0o777); err != nil {
		b.Fatal(err)
	}
	p := b.runSandbox(0)
	writer := p.run(script("echo hello > /data/file"), mounted(dir, "/data", false))
	b.wantExit(writer, 0)
	reader := p.containerConfig(0, script(`[ "$WANT" = hello ] && [ -s /elsewhere/file ]`), mounted(dir, "/elsewhere", false))
	reader.Metadata.Name = "reader"
	reader.Envs = []*runtimeapi.KeyValue{{Key: "WANT", Value: []byte("hello")}}
	id, err := p.tryCreate(reader)
	b.must(err)
	b.must(b.startIt(id))
	b.wantExit(id, 0)
}

func checkMountReadOnly(b *bench) {
	path := b.file("config", "content")
	id := b.runSandbox(0).run(script("[ -s /config ] || exit 4; echo x > /config"), mounted(path, "/config", true))
	if st := b.waitExited(id); st.GetExitCode() == 0 || st.GetExitCode() == 4 {
		b.broken("the exit code was %d", st.GetExitCode())
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "content" {
		b.broken("the file has %q, %v", got, err)
	}
}

func checkMountsTold(b *bench) {
	path := b.file("config", "content")
	st := b.statusOf(b.runSandbox(0).create(script("exit 0"), mounted(path, "/config", true)))
	for _, m := range st.GetMounts() {
		if m.GetHostPath() == path && m.GetContainerPath() == "/config" && m.GetReadonly() {
			return
		}
	}
	b.broken("it has %v", st.GetMounts())
}

package critest

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (n *node) reopen(id string) error {
	_, err := n.rt.ReopenContainerLog(n.Context(), &runtimeapi.ReopenContainerLogRequest{ContainerId: id})
	return err
}

// fileHas ends the test unless a file of the machine has these lines. It ignores their times.
func (n *node) fileHas(name string, want ...string) {
	n.Helper()
	text, err := os.ReadFile(name)
	n.ok(err)
	var got []string
	for line := range strings.Lines(string(text)) {
		at, rest, _ := strings.Cut(line, " ")
		if _, err := time.Parse(time.RFC3339Nano, at); err != nil {
			n.Error(err)
		}
		got = append(got, strings.TrimSuffix(rest, "\n"))
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		n.Fatalf("%s has %q, want %q", name, got, want)
	}
}

// Logs are files below LogsRoot, which is not below Dir, as in a kubelet. Paths below neither of them
// are not files.
func TestLogsRoot(t *testing.T) {
	logs, elsewhere := filepath.Join(t.TempDir(), "pods"), t.TempDir()
	onBubble(t, Config{Dir: t.TempDir(), LogsRoot: logs}, func(n *node) {
		pod := filepath.Join(logs, "default_web_uid")
		n.ok(os.MkdirAll(filepath.Join(pod, "app"), 0o755))
		sandbox := loggingSandbox(n, pod)
		id, err := withMounts(n, sandbox, script("echo one; echo two >&2; sleep 10; echo three; sleep 10; echo -n four"), "app/0.log")
		n.ok(err)
		log := filepath.Join(pod, "app", "0.log")
		time.Sleep(time.Second)
		n.fileHas(log, "stdout F one", "stderr F two")
		n.ok(os.Rename(log, log+".1"))
		n.ok(n.reopen(id))
		n.fileHas(log)
		time.Sleep(time.Minute)
		n.fileHas(log, "stdout F three", "stdout P four")
		n.fileHas(log+".1", "stdout F one", "stderr F two")

		other := podConfig("other")
		other.LogDirectory = elsewhere
		resp, err := n.rt.RunPodSandbox(n.Context(), &runtimeapi.RunPodSandboxRequest{Config: other})
		n.ok(err)
		_, err = withMounts(n, resp.GetPodSandboxId(), script("echo one"), "0.log")
		n.ok(err)
		synctest.Wait()
		if got, err := os.ReadDir(elsewhere); err != nil || len(got) > 0 {
			n.Errorf("%v, %v, want nothing", got, err)
		}
	})
}

// A log exists from the start of its container, and again after it is reopened, before the container
// prints anything.
func TestLogOfASilentContainer(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		id, err := withMounts(n, loggingSandbox(n, "/var/log/pods/web"), script("sleep infinity"), "app/0.log")
		n.ok(err)
		if got, err := n.ReadFile("/var/log/pods/web/app/0.log"); err != nil || len(got) > 0 {
			n.Errorf("%q, %v, want nothing", got, err)
		}
		n.ok(n.host.Remove("/var/log/pods/web/app/0.log"))
		n.ok(n.reopen(id))
		if got, err := n.ReadFile("/var/log/pods/web/app/0.log"); err != nil || len(got) > 0 {
			n.Errorf("after it was reopened: %q, %v", got, err)
		}
	})
}

// A link in the log directory of a pod does not lead to the directory of another pod.
func TestALogStaysInItsLogDirectory(t *testing.T) {
	logs := t.TempDir()
	mine, others := filepath.Join(logs, "mine"), filepath.Join(logs, "others")
	for _, dir := range []string{mine, others} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join("..", "others"), filepath.Join(mine, "app")); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	onBubble(t, Config{LogsRoot: logs}, func(n *node) {
		_, err := withMounts(n, loggingSandbox(n, mine), script("echo x"), "app/0.log")
		n.code(err, codes.Unknown)
		if got, err := os.ReadDir(others); err != nil || len(got) > 0 {
			n.Errorf("%v, %v, want nothing", got, err)
		}
	})
}

// Every runtime creates missing log directories. CRI-O creates them with the sandbox, and no other user
// may read them.
func TestLogDirectoryThatIsNotThere(t *testing.T) {
	for _, like := range []Model{Containerd2, Containerd16, CRIO} {
		logs := t.TempDir()
		pod := filepath.Join(logs, "a", "b")
		onBubble(t, Config{Like: like, LogsRoot: logs}, func(n *node) {
			sandbox := loggingSandbox(n, pod)
			if _, err := os.Stat(pod); (err == nil) != (like == CRIO) {
				n.Errorf("%d: with the sandbox: %v", like, err)
			}
			_, err := withMounts(n, sandbox, script("echo x"), "app/0.log")
			n.ok(err)
			synctest.Wait()
			n.fileHas(filepath.Join(pod, "app", "0.log"), "stdout F x")
			info, err := os.Stat(pod)
			n.ok(err)
			if like == CRIO && runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
				n.Errorf("its mode is %v", info.Mode())
			}
		})
	}
}

func TestConfigLogsRoot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{LogsRoot: file}); err == nil || !strings.Contains(err.Error(), "Config.LogsRoot") || !strings.Contains(err.Error(), file) {
		t.Errorf("of a file: %v, want an error and %q in it and %v in it", err, "Config.LogsRoot", file)
	}
}

// The mount point of the images exists, because an agent queries the system for it.
func TestImageFsInfoNamesADirectory(t *testing.T) {
	dir := t.TempDir()
	for _, cfg := range []Config{{}, {Dir: dir}, {Dir: dir, LogsRoot: t.TempDir()}} {
		onBubble(t, cfg, func(n *node) {
			resp, err := n.img.ImageFsInfo(n.Context(), &runtimeapi.ImageFsInfoRequest{})
			n.ok(err)
			at := resp.GetImageFilesystems()[0].GetFsId().GetMountpoint()
			if info, err := os.Stat(at); err != nil || !info.IsDir() || cfg.Dir != "" && at != dir {
				n.Errorf("%q: %v, want a directory, which is Config.Dir if that is set", at, err)
			}
		})
	}
}

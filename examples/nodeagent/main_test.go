package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
)

// started is an agent in this process.
type started struct {
	t         *testing.T
	manifests string
	out       string // the file it writes to
	interrupt context.CancelFunc
	ended     chan error
}

// startAgent starts an agent with its own folder of manifests, on a runtime in memory.
func startAgent(t *testing.T, args ...string) *started {
	t.Helper()
	root, err := os.MkdirTemp("", "nodeagent-") // shorter than t.TempDir, for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	a := &started{t: t, manifests: filepath.Join(root, "manifests"), out: filepath.Join(root, "out"), ended: make(chan error, 1)}
	if err := os.MkdirAll(a.manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	o, err := parse(append([]string{"-root", root, "-manifests", a.manifests, "-node", "n1"}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(a.out)
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, a.interrupt = context.WithCancel(t.Context())
	go func() {
		defer out.Close()
		a.ended <- run(ctx, o, out)
	}()
	return a
}

// says waits until the agent prints a line that contains all these words.
func (a *started) says(words ...string) {
	a.t.Helper()
	for range 6000 {
		text, err := os.ReadFile(a.out)
		if err != nil {
			a.t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			if hasAll(string(line), words) {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	text, _ := os.ReadFile(a.out)
	a.t.Fatalf("it does not say %q in a minute, but\n%s", words, text)
}

func hasAll(line string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(line, word) {
			return false
		}
	}
	return true
}

// end interrupts the agent and waits for its end.
func (a *started) end() {
	a.t.Helper()
	a.interrupt()
	select {
	case err := <-a.ended:
		if err != nil {
			a.t.Error(err)
		}
	case <-time.After(time.Minute):
		a.t.Fatal("it does not end")
	}
}

func (a *started) write(name, manifest string) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.manifests, name), []byte(manifest), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

const web = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: app
    image: registry.test/app:1
    command: [sh, -c, "trap 'exit 0' TERM; sleep infinity & wait"]
`

// Pods are added, rejected and deleted while the agent runs, and keep running when it ends.
func TestRun(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	a.says("Pods of "+a.manifests, "critest", "Ctrl-C ends the agent, and with it the runtime in memory and its pods.")
	a.says("the name of the node is appended", "web becomes web-n1.")
	a.says("No processes run", "a hostPath is a path of this machine.")
	a.write("web.yaml", web)
	a.says("Normal", "Started", "web-n1 app", "Container started")
	a.says("Pod", "Running", "web-n1", "1/1 ready, 0 restarts")
	a.write("bad.yaml", strings.NewReplacer("name: web", "name: bad", "registry.test/app:1", "''").Replace(web))
	a.says("bad.yaml", "Pod default/bad", "document 1", "spec.containers[0].image")
	a.write("bad.yaml", strings.ReplaceAll(web, "name: web", "name: bad"))
	a.says("All is well again.")
	a.says("Pod", "Running", "bad-n1")
	a.write("bad.yaml", strings.NewReplacer("name: web", "name: bad", "registry.test/app:1", "''").Replace(web))
	a.says("bad.yaml", "spec.containers[0].image", "The previous version stays in effect.")
	a.write("bad.yaml", strings.ReplaceAll(web, "name: web", "name: bad"))
	a.write("another.yaml", strings.ReplaceAll(web, "registry.test/app:1", "registry.test/app:2"))
	a.says("another.yaml: document 1: Pod default/web-n1: another of that name is in", "web.yaml, document 1, which counts")
	if err := os.Remove(filepath.Join(a.manifests, "another.yaml")); err != nil {
		t.Fatal(err)
	}
	a.write("odd.yaml", strings.NewReplacer("name: web", "name: odd", "command:", "comand:").Replace(web))
	a.says("Warning: ", "odd.yaml", `unknown field "spec.containers[0].comand"`)
	if err := os.Remove(filepath.Join(a.manifests, "odd.yaml")); err != nil {
		t.Fatal(err)
	}
	a.says("Pod", "Gone", "odd-n1")
	if err := os.Remove(filepath.Join(a.manifests, "bad.yaml")); err != nil {
		t.Fatal(err)
	}
	a.says("Normal", "Killing", "bad-n1 app")
	a.says("Pod", "Gone", "bad-n1")
	a.end()
	a.says("Detached from 1 running pod.")
}

// The agent prints the reason why a pod does not start.
func TestRunReportsWhyAPodDoesNotStart(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	volume := "  volumes: [{name: data, configMap: {name: nosuch}}]\n  containers:\n"
	a.write("web.yaml", strings.NewReplacer("  containers:\n", volume, "    image:", "    volumeMounts: [{name: data, mountPath: /data}]\n    image:").Replace(web))
	a.says("Warning", "FailedMount", "web-n1", `MountVolume.SetUp failed for volume "data" : configMap "nosuch": `)
	a.end()
}

// The folder's Secrets are the pull secrets of its pods, and a missing one is reported.
func TestRunPullsWithSecrets(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	a.write("web.yaml", strings.Replace(web, "  containers:\n", "  imagePullSecrets: [{name: registry}]\n  containers:\n", 1))
	a.says("Warning", "FailedToRetrieveImagePullSecret", "web-n1", "Secret default/registry is not in")
	a.end()
}

// With -drain the pods are stopped before the agent ends.
func TestRunDrains(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "-drain", "-o", "json")
	a.write("web.yaml", web)
	a.says(`"kind":"Pod"`, `"reason":"Running"`, `"ready":"1/1"`, `"restarts":0`, `"phase":"Running"`)
	a.end()
	a.says(`"kind":"Event"`, `"reason":"Killing"`, `"container":"app"`)
	a.says(`"kind":"Message"`, "No pod of the folder runs.")
}

// The samples behave as their descriptions say.
func TestSamples(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	if err := writeSamples(a.manifests); err != nil {
		t.Fatal(err)
	}
	a.says("Pod", "Running", "web-n1", "1/1 ready")
	a.says("Normal", "Started", "ordered-n1 migrate")
	a.says("Normal", "Started", "ordered-n1 proxy")
	a.says("Normal", "Started", "ordered-n1 warm-up")
	a.says("Pod", "Running", "ordered-n1", "2/2 ready")
	a.says("Warning", "BackOff", "crashing-n1 app")
	a.says("Pod", "Completed", "report-n1", "0/1 ready")
	a.end()
	a.says("Detached from")
}

// The runtime in memory shows failures of images and of memory, as README describes.
func TestFailuresInMemory(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	a.write("web.yaml", strings.NewReplacer("name: web", "name: missing", "registry.test/", "registry.invalid/").Replace(web))
	a.says("Pod", "ErrImagePull", "missing-n1")
	a.says("Pod", "ImagePullBackOff", "missing-n1")
	a.write("hungry.yaml", `apiVersion: v1
kind: Pod
metadata: {name: hungry}
spec:
  restartPolicy: Never
  containers:
  - name: app
    image: polinux/stress
    command: [stress, --vm, "1", --vm-bytes, 250M]
    resources: {limits: {memory: 100M}}
`)
	a.says("Pod", "OOMKilled", "hungry-n1", "0/1 ready")
	a.end()
}

// An agent that waits for a missing runtime ends when it is interrupted.
func TestRunInterruptedBeforeTheRuntime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o, err := parse([]string{"-root", dir, "-pod-logs", dir, "-manifests", dir, "-runtime", "unix:///nowhere/cri.sock"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if err := run(ctx, o, os.Stdout); err != nil {
		t.Error(err)
	}
}

// Logs of containers are files in the folder of -pod-logs, also outside of -root.
func TestLogsInMemoryAreFiles(t *testing.T) {
	t.Parallel()
	logs := t.TempDir()
	a := startAgent(t, "-pod-logs", logs)
	a.write("web.yaml", strings.Replace(web, "trap", "echo hello; trap", 1))
	a.says("Pod", "Running", "web-n1", "1/1 ready, 0 restarts")
	files, err := filepath.Glob(filepath.Join(logs, "default_web-n1_*", "app", "0.log"))
	if err != nil || len(files) != 1 {
		t.Fatalf("logs are %q, %v", files, err)
	}
	if text, err := os.ReadFile(files[0]); err != nil || !strings.HasSuffix(string(text), " stdout F hello\n") {
		t.Errorf("the log is %q, %v", text, err)
	}
	a.end()
}

// The socket of a killed agent does not prevent the next start. A running agent prevents the start of a second one.
func TestConnectInMemory(t *testing.T) {
	t.Parallel()
	root, err := os.MkdirTemp("", "nodeagent-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	o := options{runtime: memory, root: root}
	lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(root, "memory.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	lis.SetUnlinkOnClose(false) // as with SIGKILL
	lis.Close()
	conn, err := connect(t.Context(), o, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	_, err = connect(t.Context(), o, t.Logf)
	if err == nil || exitCode(err) != exitUsage || !hasAll(err.Error(), []string{"-root " + root + ": another agent runs there", "another -root"}) {
		t.Errorf("exit code %d, %v", exitCode(err), err)
	}
	conn.end()
	conn, err = connect(t.Context(), o, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	conn.end()
	notes := filepath.Join(root, "memory.sock")
	if err := os.WriteFile(notes, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t.Context(), o, t.Logf); err == nil {
		t.Error("a file that is no socket is taken for one")
	}
	if _, err := os.Stat(notes); err != nil {
		t.Errorf("a file that is no socket was removed: %v", err)
	}
}

func TestDialFails(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "dial-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	lis, err := net.Listen("unix", filepath.Join(dir, "other.sock"))
	if err != nil {
		t.Fatal(err)
	}
	other := grpc.NewServer() // serves gRPC without CRI
	defer other.Stop()
	go func() { _ = other.Serve(lis) }()
	for _, tt := range []struct {
		endpoint string
		code     int
		says     []string
	}{
		{"unix://" + dir + "/absent.sock", exitNoRuntime, []string{"no runtime answers at unix://" + dir + "/absent.sock", "no such file", "Is the runtime started"}},
		{"unix://" + dir + "/other.sock", exitWrongRuntime, []string{"does not serve CRI v1", "containerd speaks it from 1.6 on"}},
		{"tcp://127.0.0.1:1", exitUsage, []string{`the scheme "tcp" is not supported`, seeHelp}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the maximum wait
		said := ""
		_, err := dial(ctx, tt.endpoint, func(format string, args ...any) { said += fmt.Sprintf(format, args...) })
		if waits := strings.Contains(said, "No runtime answers at "+tt.endpoint+" yet: "); waits != (tt.code == exitNoRuntime) {
			t.Errorf("%s: it says %q, want that no runtime answers only with exit code %d", tt.endpoint, said, exitNoRuntime)
		}
		cancel()
		if err == nil || !hasAll(err.Error(), tt.says) || exitCode(err) != tt.code {
			t.Errorf("%s: exit code %d, %v", tt.endpoint, exitCode(err), err)
		}
	}
	if got := exitCode(errors.New("anything")); got != exitOther {
		t.Errorf("any other error is %d", got)
	}
}

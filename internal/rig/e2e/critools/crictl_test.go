package critools

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// A shell is crictl with a runtime's endpoint.
type shell struct {
	*testing.T
	program, dir string
}

func newShell(t *testing.T, endpoint string) *shell {
	t.Helper()
	s := &shell{T: t, dir: t.TempDir()}
	s.file("crictl.yaml", "runtime-endpoint: "+endpoint+"\nimage-endpoint: "+endpoint+"\n")
	s.program = filepath.Join(s.dir, "crictl")
	if out, err := exec.Command("go", "build", "-o", s.program, "sigs.k8s.io/cri-tools/cmd/crictl").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return s
}

func (s *shell) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.program, append([]string{"--config", filepath.Join(s.dir, "crictl.yaml")}, args...)...)
	cmd.WaitDelay = time.Second
	return cmd
}

// runs runs a command, and fails the test if its output does not match.
func (s *shell) runs(want string, args ...string) string {
	s.Helper()
	var out, errs bytes.Buffer
	cmd := s.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || !regexp.MustCompile(want).Match(out.Bytes()) {
		s.Fatalf("crictl %s: %v, got\n%s%swant a match of %s", strings.Join(args, " "), err, out.String(), errs.String(), want)
	}
	return strings.TrimSpace(out.String())
}

// begins starts a command that runs until the test ends. The returned function waits until it has printed a match, and
// returns it with its groups.
func (s *shell) begins(input io.Reader, args ...string) (prints func(want string) []string) {
	s.Helper()
	cmd := s.command(args...)
	out := &output{changed: make(chan struct{}, 1)}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, out, out
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return func(want string) []string {
		s.Helper()
		late := time.After(time.Minute)
		for {
			if m := regexp.MustCompile(want).FindStringSubmatch(out.String()); m != nil {
				return m
			}
			select {
			case <-out.changed:
			case <-late:
				s.Fatalf("crictl %s printed\n%swant a match of %s", strings.Join(args, " "), out, want)
			}
		}
	}
}

// An output is what a running command has printed.
type output struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (s *shell) file(name, text string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

func TestCrictl(t *testing.T) {
	t.Parallel()
	web := func(ctx context.Context, c *critest.Command) int {
		lis, err := c.Listen(80)
		if err != nil {
			return 1
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })}
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		_ = server.Serve(lis) // until Close
		return 0
	}
	_, endpoint := listening(t, critest.Config{Programs: map[string]critest.Program{"web": web}})
	s := newShell(t, endpoint)

	logs := t.TempDir()
	pod := s.file("pod.json", `{"metadata":{"name":"web","namespace":"default","uid":"u1","attempt":0},"log_directory":"`+logs+`"}`)
	server := s.file("web.json", `{"metadata":{"name":"web"},"image":{"image":"web"},"command":["web"],"log_path":"web.log"}`)
	script := s.file("app.json", `{"metadata":{"name":"app"},"image":{"image":"busybox"},"log_path":"app.log","stdin":true,
		"command":["sh","-c","echo started; while read l; do echo got $l; done; sleep infinity"]}`)

	s.runs(`RuntimeName: +critest`, "version")
	s.runs(`"type": "RuntimeReady"`, "info")
	events := s.begins(nil, "events")
	s.runs(`Image is up to date for sha256:`, "pull", "busybox")
	s.runs(`docker.io/library/busybox +latest`, "images")
	s.runs(`docker.io/library/busybox:latest`, "inspecti", "busybox")
	s.runs(``, "pull", "web")
	sandbox := s.runs(`^[0-9a-f]{64}\n$`, "runp", pod)
	events(`CONTAINER_STARTED_EVENT`)
	s.runs(`Ready +web +default`, "pods")
	s.runs(`"state": "SANDBOX_READY"`, "inspectp", sandbox[:13])
	s.runs(``, "start", s.runs(`^[0-9a-f]{64}\n$`, "create", sandbox, server, pod))
	app := s.runs(`^[0-9a-f]{64}\n$`, "create", sandbox, script, pod)
	s.runs(`Created +app`, "ps", "-a")
	s.runs(``, "start", app)
	s.runs(`Running +app .*\n.*Running +web|Running +web .*\n.*Running +app`, "ps")
	s.runs(`"state": "CONTAINER_RUNNING"`, "inspect", app[:13])
	s.begins(nil, "logs", "-f", app)("started\n")
	s.runs(`^hi\n$`, "exec", app, "echo", "hi")
	s.runs(`^hi\n`, "exec", "--sync", app, "echo", "hi")
	s.begins(strings.NewReader("a line\n"), "attach", "-i", app)("got a line")
	port := s.begins(nil, "port-forward", sandbox, ":80")(`Forwarding from (127\.0\.0\.1:\d+) -> 80`)[1]
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + port)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); string(text) != "hello" {
		t.Errorf("the forwarded port answers %q, %v, want %q", text, err, "hello")
	}
	s.runs(`(?s)app.*web|web.*app`, "stats")
	s.runs(`web`, "statsp")
	s.runs(``, "stop", app[:13])
	events(`CONTAINER_STOPPED_EVENT`)
	s.runs(`Exited +app`, "ps", "-a")
	s.runs(``, "rm", app[:13])
	s.runs(`Stopped sandbox`, "stopp", sandbox[:13])
	s.runs(`Removed sandbox`, "rmp", sandbox[:13])
	s.runs(`Deleted: docker.io/library/busybox:latest`, "rmi", "busybox")
	s.runs(`^[^\n]*\n$`, "pods") // the header
}

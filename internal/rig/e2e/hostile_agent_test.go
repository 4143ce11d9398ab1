//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const (
	// maxResident is the maximum resident memory of the agent, in kB.
	maxResident = 64 << 10
	// removedWithin is how long a pod's removal may take. On a busy machine, containerd 2.4 refuses for up to a minute
	// to remove a container that it lists as exited ("cannot delete running task"), and the agent waits up to a minute more
	// before it tries again.
	removedWithin = 4 * time.Minute
	// deadly is the resident memory at which the agent is killed, to protect the machine.
	deadly = 1 << 20
)

// hostileProgram returns the path of the program of package hostile, in a directory of its own. Containers run it as
// well.
var hostileProgram = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(binaries, "hostile")
	path := filepath.Join(dir, "hostile")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", path, "github.com/podsync/podsync/internal/rig/e2e/hostile")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// A target is the agent under attack, a process of its own.
type target struct {
	*testing.T
	cmd    *exec.Cmd
	dir    string
	client *http.Client
	stderr *os.File
	// ended is closed when the agent has ended, and down is set before it is ended on purpose.
	ended chan struct{}
	down  bool

	mu    sync.Mutex
	lines map[string][]line // by UID of the pod
}

// startTarget starts an agent with its files below dir.
func startTarget(t *testing.T, endpoint, dir, owner string) *target {
	t.Helper()
	program := must.Get(hostileProgram())(t)
	a := &target{T: t, dir: dir, ended: make(chan struct{}), lines: map[string][]line{}}
	socket := filepath.Join(dir, "sockets", "control")
	a.client = &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	a.cmd = exec.Command(program, "agent", "-runtime", endpoint, "-dir", dir, "-owner", owner, "-secret", canaryValue)
	a.stderr = must.Get(os.Create(filepath.Join(t.ArtifactDir(), "hostile.log")))(t)
	a.cmd.Stderr = a.stderr
	a.cmd.Env = append(os.Environ(), "GOTRACEBACK=single")
	stdout, err := a.cmd.StdoutPipe()
	if err == nil {
		err = a.cmd.Start()
	}
	must.Do(t, err)
	go a.listen(stdout)
	t.Cleanup(a.end)
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			return a
		} else if time.Now().After(end) {
			t.Fatalf("the agent has not come up: %v\n%s", err, a.tail())
		}
	}
}

func (a *target) listen(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			a.Errorf("the agent says %q", lines.Text())
		}
		a.mu.Lock()
		a.lines[l.UID] = append(a.lines[l.UID], l)
		a.mu.Unlock()
	}
	err := a.cmd.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.down {
		a.Errorf("the agent has ended by itself: %v\n%s", err, a.tail())
	}
	close(a.ended)
}

func (a *target) end() {
	a.mu.Lock()
	a.down = true
	a.mu.Unlock()
	_ = a.cmd.Process.Signal(os.Interrupt)
	select {
	case <-a.ended:
	case <-time.After(patience):
		a.Errorf("the agent does not end")
		_ = a.cmd.Process.Kill()
		<-a.ended
	}
	a.stderr.Close()
}

// tail returns the end of the agent's log, from the line at which it died.
func (a *target) tail() string {
	text, _ := os.ReadFile(a.stderr.Name())
	for _, words := range []string{"\nfatal error:", "\npanic:"} {
		if i := bytes.Index(text, []byte(words)); i >= 0 {
			return string(text[i:min(len(text), i+4000)])
		}
	}
	return string(text[max(0, len(text)-4000):])
}

// alive reports whether the agent runs.
func (a *target) alive() bool {
	select {
	case <-a.ended:
		return false
	default:
		return true
	}
}

func (a *target) request(method, path string, body []byte) (int, error) {
	req, err := http.NewRequest(method, "http://agent"+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusBadRequest {
		err = fmt.Errorf("%s", text)
	}
	return resp.StatusCode, err
}

// put makes the agent run a pod.
func (a *target) put(pod *v1.Pod) error {
	text, err := json.Marshal(pod)
	if err == nil {
		_, err = a.request(http.MethodPut, "/pods", text)
	}
	return err
}

// remove removes a pod, and returns when the agent has forgotten it and removed all of its files.
func (a *target) remove(pod *v1.Pod) error {
	if _, err := a.request(http.MethodDelete, "/pods/"+string(pod.UID), nil); err != nil {
		return err
	}
	return a.until(removedWithin, func() error {
		code, err := a.request(http.MethodGet, "/pods/"+string(pod.UID), nil)
		if err != nil {
			return err
		}
		if code != http.StatusNotFound {
			return fmt.Errorf("%s has been removed, and the agent still has it", pod.Name)
		}
		if _, err := os.Lstat(filepath.Join(a.dir, "root", "pods", string(pod.UID))); !os.IsNotExist(err) {
			return fmt.Errorf("%s has been removed, and its directory is there: %v", pod.Name, err)
		}
		return nil
	})
}

// forget drops the reports about a pod.
func (a *target) forget(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.lines, string(uid))
}

// until waits until a condition holds. It does not wait for an agent that has ended.
func (a *target) until(within time.Duration, what func() error) error {
	for end := time.Now().Add(within); ; time.Sleep(25 * time.Millisecond) {
		err := what()
		switch {
		case err == nil:
			return nil
		case !a.alive():
			return fmt.Errorf("the agent has ended: %w", err)
		case time.Now().After(end):
			return fmt.Errorf("after %v: %w", within, err)
		}
	}
}

// status returns the last reported status of a pod, the zero status if there is none.
func (a *target) status(uid types.UID) (last v1.PodStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.lines[string(uid)] {
		if l.Kind == "Pod" {
			last = l.Status
		}
	}
	return last
}

// events returns a pod's events with a reason, as "name: message".
func (a *target) events(uid types.UID, reason string) (messages []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.lines[string(uid)] {
		if l.Kind == "Event" && l.Reason == reason {
			messages = append(messages, l.Name+": "+l.Message)
		}
	}
	return messages
}

// story returns the reports about a pod.
func (a *target) story(uid types.UID) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var story strings.Builder
	for _, l := range a.lines[string(uid)] {
		fmt.Fprintf(&story, "%s %s %s %s %s %.300s\n", l.Time.Format("15:04:05.000"), l.Kind, l.Status.Phase, l.Status.Reason, l.Reason, l.Message)
	}
	return story.String()
}

// resident returns the maximum resident memory since the last call, in kB. It kills the agent if it uses so much that the
// machine could run out of memory.
func (a *target) resident() (peak int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid)) // it may have ended
	now := 0
	for text := range strings.Lines(string(text)) {
		if fields := strings.Fields(text); len(fields) == 3 {
			switch n, _ := strconv.Atoi(fields[1]); fields[0] {
			case "VmHWM:":
				peak = n
			case "VmRSS:":
				now = n
			}
		}
	}
	if now > deadly {
		_ = a.cmd.Process.Signal(syscall.SIGKILL)
	}
	// 5 makes the kernel reset the maximum.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", a.cmd.Process.Pid), []byte("5"), 0)
	return peak
}

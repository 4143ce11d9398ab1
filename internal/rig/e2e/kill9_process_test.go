//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// victim is a process that is killed and started again.
type victim interface {
	kill()
	start()
}

// agentProcess is the agent of examples/nodeagent.
type agentProcess struct {
	t            *testing.T
	program, log string
	args         []string
	pid          int
	ended        chan struct{}
	// began is the log's size before the process.
	began int64
	// killed means that the process must end.
	killed *bool
	mu     sync.Mutex
}

func newAgentProcess(t *testing.T, dir, endpoint, manifests string) *agentProcess {
	a := &agentProcess{t: t, program: filepath.Join(dir, "nodeagent"), log: filepath.Join(t.ArtifactDir(), "agent.json")}
	a.args = []string{"-o", "json", "-node", "k9", "-manifests", manifests, "-runtime", endpoint, "-root", filepath.Join(dir, "root"), "-pod-logs", filepath.Join(dir, "logs")}
	if out, err := exec.Command("go", "build", "-o", a.program, "../../../examples/nodeagent").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() {
		a.kill()
		unmountRoot(t, filepath.Join(dir, "root"))
	})
	return a
}

func (a *agentProcess) start() {
	a.t.Helper()
	out, err := os.OpenFile(a.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	must.Do(a.t, err)
	a.began = must.Get(out.Stat())(a.t).Size()
	cmd := exec.Command(a.program, a.args...)
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Start()
	out.Close()
	must.Do(a.t, err)
	killed, ended := new(bool), make(chan struct{})
	a.killed, a.ended, a.pid = killed, ended, cmd.Process.Pid
	go func() {
		defer close(ended)
		err := cmd.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		if !*killed {
			a.t.Errorf("the agent has ended by itself: %v", err)
		}
	}()
}

func (a *agentProcess) kill() {
	if a.ended == nil {
		return
	}
	a.mu.Lock()
	*a.killed = true
	a.mu.Unlock()
	_ = syscall.Kill(a.pid, syscall.SIGKILL)
	<-a.ended
}

// used returns the processor time that the agent has used.
func (a *agentProcess) used() time.Duration {
	a.t.Helper()
	text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/stat", a.pid)))(a.t)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		a.t.Fatalf("%q", text)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// reported returns the last status of each pod, by UID, that this process of the agent has reported. Those of an earlier one do not
// count: the agent stops no pod of the earlier one before it has read the folder, and none at all if that is empty then.
func (a *agentProcess) reported() map[string]v1.PodStatus {
	a.t.Helper()
	last := map[string]v1.PodStatus{}
	for _, said := range a.lines(a.began) {
		if said.Kind == "Pod" {
			last[said.UID] = said.Status
		}
	}
	return last
}

// lines returns the log's lines after an offset.
func (a *agentProcess) lines(from int64) (lines []line) {
	a.t.Helper()
	text := must.Get(os.ReadFile(a.log))(a.t)
	for text := range bytes.Lines(text[from:]) {
		// The agent may have been killed in the middle of a line.
		if l := (line{}); json.Unmarshal(text, &l) == nil {
			lines = append(lines, l)
		}
	}
	return lines
}

// story returns the agent's output about a pod, and about itself.
func (a *agentProcess) story(uid string) string {
	var story strings.Builder
	for _, l := range a.lines(0) {
		if l.UID == uid || l.UID == "" {
			fmt.Fprintf(&story, "%s %s %s %s %s\n", l.Time.Format("15:04:05.000"), l.Kind, l.Status.Phase, l.Reason, l.Message)
		}
	}
	return story.String()
}

// daemon is a runtime that a script has brought up.
type daemon struct {
	t     *testing.T
	dir   string
	again []string // the script's command that starts it again
}

// daemonOf returns the runtime behind an endpoint.
func daemonOf(t *testing.T, endpoint string) *daemon {
	t.Helper()
	dir := filepath.Dir(strings.TrimPrefix(endpoint, "unix://"))
	d := &daemon{t: t, dir: dir}
	config, err := os.ReadFile(filepath.Join(dir, "config.toml"))
	_, errCRIO := os.Stat(filepath.Join(dir, "crio.conf"))
	switch {
	case errCRIO == nil:
		d.again = []string{"./crio.sh", "start", dir}
	case err != nil:
		t.Skipf("%s was brought up neither by containerd.sh nor by crio.sh", endpoint)
	case bytes.HasPrefix(config, []byte("version = 2\n")):
		d.again = []string{"./containerd.sh", "start", "1.6", dir}
	default:
		d.again = []string{"./containerd.sh", "start", "2.4", dir}
	}
	t.Cleanup(func() {
		if !d.alive() {
			d.start() // other tests need it
		}
	})
	return d
}

func (d *daemon) pid() int {
	d.t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(d.dir, "pid")))(d.t)
	return must.Get(strconv.Atoi(strings.TrimSpace(string(text))))(d.t)
}

// alive reports whether the daemon runs. It is not a child of this process, so no one waits for it.
func (d *daemon) alive() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.pid()))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

// story returns the lines of the daemon's log about any of these IDs.
func (d *daemon) story(ids []string) string {
	var story strings.Builder
	for _, name := range []string{"containerd.log", "crio.log"} {
		text, _ := os.ReadFile(filepath.Join(d.dir, name)) // only one of the two exists
		for line := range strings.Lines(string(text)) {
			if slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(line, id) }) {
				story.WriteString(line)
			}
		}
	}
	return story.String()
}

func (d *daemon) kill() {
	_ = syscall.Kill(d.pid(), syscall.SIGKILL)
	for d.alive() {
		time.Sleep(time.Millisecond)
	}
}

func (d *daemon) start() {
	if out, err := exec.Command(d.again[0], d.again[1:]...).CombinedOutput(); err != nil {
		d.t.Errorf("%s: %v\n%s", d.again[0], err, out)
	}
}

// processes counts the processes of containers whose name begins with a mark, by that name. A process that a shell has
// forked has the shell's name for a moment.
func processes(mark string) map[string]int {
	marked, parent := map[string]string{}, map[string]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		args, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		stat, err2 := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil || err2 != nil {
			continue
		}
		for arg := range strings.SplitSeq(string(args), "\x00") {
			if strings.HasPrefix(arg, mark) {
				pid := filepath.Base(dir)
				marked[pid] = arg
				parent[pid] = strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[1]
			}
		}
	}
	count := map[string]int{}
	for pid, name := range marked {
		if marked[parent[pid]] == "" {
			count[name]++
		}
	}
	return count
}

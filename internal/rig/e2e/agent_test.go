package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// TestAgent runs examples/nodeagent on real runtimes, with a pod for each feature. It checks the runtime first, and the
// agent's reports second.
func TestAgent(t *testing.T) {
	onNodes(t, func(n *node) {
		n.write("objects.yaml", objects)
		a := n.start("-drain")
		for _, test := range []struct {
			name string
			run  func(n *node, a *agent)
		}{
			{"CrashLoop", crashLoop}, // the longest
			{"InitContainersInOrder", initContainersInOrder},
			{"InitContainerFails", initContainerFails},
			{"SidecarsEndAfterTheApp", sidecarsEndAfterTheApp},
			{"SidecarOfAJob", sidecarOfAJob},
			{"Hooks", hooks},
			{"PostStartFails", postStartFails},
			{"PreStopTakesTooLong", preStopTakesTooLong},
			{"Environment", environment},
			{"Volumes", volumes}, {"VolumesChange", volumesChange}, {"MountsPropagate", mountsPropagate},
			{"Never", never},
			{"HostNetwork", hostNetwork},
			{"PodNetwork", podNetwork},
			{"DeletionOfTheDeaf", deletionOfTheDeaf},
			{"DeletionOfTheWilling", deletionOfTheWilling},
			{"DeletedWhileInitializing", deletedWhileInitializing},
			{"DeletedAndBack", deletedAndBack},
			{"ChangedInPlace", changedInPlace},
			{"NoSuchImage", noSuchImage},
			{"ImageNeverPulled", imageNeverPulled},
			{"SandboxKilled", sandboxKilled},
			{"SandboxRemoved", sandboxRemoved},
			{"ContainerKilled", containerKilled},
			{"ContainersRemoved", containersRemoved},
			{"TerminationMessage", terminationMessage},
			{"LogsOfARestartOnFailure", logs},
			{"BadManifest", badManifest},
		} {
			n.Run(test.name, func(t *testing.T) {
				t.Parallel()
				test.run(n.in(t), a)
			})
		}
	})
}

// A line is a line of the agent's output, with -o json.
type line struct {
	Kind, Namespace, Name, UID string
	Type, Reason, Message      string
	Status                     v1.PodStatus
	Time                       time.Time
}

// An agent is a process of examples/nodeagent.
type agent struct {
	*node
	cmd   *exec.Cmd
	ended chan struct{} // closed at the end of the output

	mu     sync.Mutex
	lines  []line
	stderr bytes.Buffer
}

// start starts an agent. The test ends only when it has ended.
func (n *node) start(args ...string) *agent {
	n.Helper()
	binary := must.Get(nodeAgent())(n)
	a := &agent{node: n, ended: make(chan struct{})}
	a.cmd = exec.Command(binary, append([]string{
		"-runtime", n.endpoint, "-manifests", n.manifests, "-root", n.root, "-pod-logs", n.logs, "-node", nodeName, "-o", "json", "-stop-unknown",
	}, args...)...)
	a.cmd.Stderr = &a.stderr
	stdout := must.Get(a.cmd.StdoutPipe())(n)
	must.Do(n, a.cmd.Start())
	go func() {
		defer close(a.ended)
		lines := bufio.NewScanner(stdout)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			a.hear(lines.Bytes())
		}
	}()
	n.Cleanup(func() {
		if a.cmd.ProcessState == nil {
			a.end()
		}
	})
	return a
}

func (a *agent) hear(text []byte) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		l = line{Kind: "Unreadable", Message: string(text)}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, l)
}

// end requests the end of the agent, and waits for it.
func (a *agent) end() {
	a.Helper()
	must.Do(a, a.cmd.Process.Signal(os.Interrupt))
	a.wait()
	if code := a.cmd.ProcessState.ExitCode(); code != 0 {
		a.Errorf("the agent has ended with %d: %s", code, &a.stderr)
	}
}

func (a *agent) wait() {
	a.Helper()
	hung := time.AfterFunc(patience, func() { _ = a.cmd.Process.Kill() })
	defer hung.Stop()
	<-a.ended
	if err := a.cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		a.Error(err)
	}
}

// said returns the agent's lines of a kind about a pod, or about all pods for "".
func (a *agent) said(kind, pod string) []line {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.lines), func(l line) bool {
		return l.Kind != kind || pod != "" && l.Name != pod
	})
}

// story returns the agent's output about a pod, to explain a failed test.
func (a *agent) story(pod string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	story := fmt.Sprintf("output of the agent:\n%s", &a.stderr)
	for _, l := range a.lines {
		if l.Name == pod || l.Kind != "Pod" && l.Kind != "Event" && l.Kind != "Gone" {
			story += fmt.Sprintf("%s %s %s %s %s\n", l.Time.Format(time.StampMilli), l.Kind, l.UID, l.Reason, l.Message)
		}
	}
	return story
}

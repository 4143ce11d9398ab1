package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/oom"
	"github.com/podsync/podsync/syncpod/source"
)

// heard collects the reports of goroutines.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) add(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.lines)
}

// kills are OOM kills that a test reports.
type kills chan oom.Kill

func (k kills) Run(ctx context.Context, tell func(oom.Kill)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case kill := <-k:
			tell(kill)
		}
	}
}

// An OOM kill is reported as an event of the container, and also of the node if the node is out of memory. A kill outside
// of the agent's containers is not reported as an event of a container.
func TestOOMEvents(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		killed, src := make(kills), source.NewPush()
		events := &heard{}
		n.start([]source.Source{src}, reportingOOM(killed, events))
		set(t, src, asking("web", ""))
		time.Sleep(30 * time.Second)
		id := n.instances("web").Containers[0].ID.ID
		at := "/kubepods/podweb/" + id
		for _, k := range []oom.Kill{
			{PID: 7, Process: "sh", Cgroup: at, Limit: at},
			{PID: 8, Process: "db", Cgroup: "/system.slice/db.service"},
			{PID: 9, Process: "sh", Cgroup: at},
			{PID: 10, Process: "sh", Cgroup: "/kubepods/x/" + strings.Repeat("0", 64), Limit: "/kubepods/x"},
		} {
			killed <- k
			time.Sleep(2 * time.Minute) // kills that follow sooner are counted
		}
		want := []string{
			"Pod webspec.containers{app} Warning OOMKilling: Process sh, PID 7, of container app was killed: the memory limit was reached",
			"Node node-1 Warning SystemOOM: System OOM encountered, victim process: db, pid: 8",
			"Node node-1 Warning SystemOOM: System OOM encountered, victim process: sh, pid: 9",
			"Pod webspec.containers{app} Warning OOMKilling: Process sh, PID 9, of container app was killed: the node is out of memory",
		}
		if got := events.all(); !slices.Equal(got, want) {
			t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// reportingOOM returns a change of a Config that reports kills as events.
func reportingOOM(killed kills, events *heard) func(*agent.Config) {
	return func(c *agent.Config) {
		agent.WatchKills(c, killed)
		c.NodeName = "node-1"
		c.Sync.Events = syncpod.EventRecorderFunc(func(about k8sruntime.Object, kind, reason, format string, args ...any) {
			if ref := about.(*v1.ObjectReference); strings.Contains(reason, "OOM") {
				events.add(fmt.Sprintf("%s %s%s %s %s: %s", ref.Kind, ref.Name, ref.FieldPath, kind, reason, fmt.Sprintf(format, args...)))
			}
		})
	}
}

// A container is killed before the agent has seen it running. The kill is reported once the agent has seen it.
func TestOOMBeforeTheContainerIsSeen(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		killed, src := make(kills), source.NewPush()
		events := &heard{}
		n.start([]source.Source{src}, reportingOOM(killed, events))
		time.Sleep(time.Second)
		for _, m := range []critest.Method{critest.ListContainers, critest.ContainerStatus} {
			must.Get(n.Runtime.Inject(faults.Fault{Match: faults.Match{Method: m}, Delay: 3 * time.Second}))(t)
		}
		set(t, src, asking("web", ""))
		for len(n.Runtime.Journal().Of(critest.StartContainer)) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		id := n.Runtime.Journal().Of(critest.StartContainer)[0].ContainerID
		killed <- oom.Kill{PID: 7, Process: "sh", Cgroup: "/k8s.io/" + id, Limit: "/k8s.io/" + id}
		synctest.Wait()
		if got := events.all(); len(got) > 0 {
			t.Errorf("%q before the container is known", got)
		}
		time.Sleep(20 * time.Second)
		if got := events.all(); len(got) != 1 || !strings.HasPrefix(got[0], "Pod webspec.containers{app} Warning OOMKilling: Process sh, PID 7,") {
			t.Errorf("%q, want one event that begins with %q", got, "Pod webspec.containers{app} Warning OOMKilling: Process sh, PID 7,")
		}
	})
}

// A container that may write to its cgroup creates cgroups with another container's name. Without pod cgroups, its own
// name still comes first in the path, even if the agent has not seen the container yet.
func TestOOMKillInACgroupThatNamesAnother(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		killed, src := make(kills), source.NewPush()
		events := &heard{}
		n.start([]source.Source{src}, reportingOOM(killed, events))
		set(t, src, asking("other", ""))
		time.Sleep(30 * time.Second)
		other := n.instances("other").Containers[0].ID.ID
		for _, m := range []critest.Method{critest.ListContainers, critest.ContainerStatus} {
			must.Get(n.Runtime.Inject(faults.Fault{Match: faults.Match{Method: m}, Delay: 500 * time.Millisecond}))(t)
		}
		set(t, src, asking("other", ""), asking("web", ""))
		for len(n.Runtime.Journal().Of(critest.StartContainer)) == 1 {
			time.Sleep(10 * time.Millisecond)
		}
		at := "/k8s.io/" + n.Runtime.Journal().Of(critest.StartContainer)[1].ContainerID
		killed <- oom.Kill{PID: 7, Process: "sh", Cgroup: at + "/podx/" + other, Limit: at}
		time.Sleep(2 * time.Minute)
		killed <- oom.Kill{PID: 8, Process: "sh", Cgroup: at + "/podx/" + other, Limit: at}
		time.Sleep(2 * time.Minute)
		got := events.all()
		if len(got) != 2 || !strings.HasPrefix(got[0], "Pod webspec.") || !strings.HasPrefix(got[1], "Pod webspec.") {
			t.Errorf("events %q, want two of the pod web", got)
		}
	})
}

// The whole node runs in a container, whose ID is the first name in all cgroups.
func TestOOMKillOnANodeInAContainer(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		killed, src := make(kills), source.NewPush()
		events := &heard{}
		n.start([]source.Source{src}, reportingOOM(killed, events))
		set(t, src, asking("web", ""), asking("db", ""))
		time.Sleep(30 * time.Second)
		for _, pod := range []string{"web", "db"} {
			at := "/docker/" + strings.Repeat("f", 64) + "/kubepods/podx/" + n.instances(pod).Containers[0].ID.ID
			killed <- oom.Kill{PID: 7, Process: "sh", Cgroup: at, Limit: at}
		}
		time.Sleep(6 * time.Second)
		got := strings.Join(events.all(), "\n")
		if len(events.all()) != 2 || !strings.Contains(got, "Pod webspec.") || !strings.Contains(got, "Pod dbspec.") {
			t.Errorf("events %q, want one of each pod", got)
		}
	})
}

// A container has its processes killed without end: the first kill is an event at once, and the number of the others
// once a minute. The kills of another container are reported all the same.
func TestOOMKillsWithoutEnd(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		killed, src := make(kills), source.NewPush()
		events := &heard{}
		var lines atomic.Int32
		n.start([]source.Source{src}, func(c *agent.Config) {
			reportingOOM(killed, events)(c)
			c.Log = funcr.New(func(_, line string) {
				if strings.Contains(line, "kill") {
					lines.Add(1)
				}
			}, funcr.Options{Verbosity: 10})
		})
		set(t, src, asking("web", ""), asking("db", ""))
		time.Sleep(30 * time.Second)
		at := "/kubepods/podweb/" + n.instances("web").Containers[0].ID.ID
		for pid := range 1000 {
			killed <- oom.Kill{PID: pid + 1, Process: "sh", Cgroup: at, Limit: at}
			killed <- oom.Kill{PID: pid + 1, Process: "sh", Cgroup: "/kubepods/podx/" + strings.Repeat("0", 64), Limit: "/kubepods/podx"}
			time.Sleep(99 * time.Millisecond) // none at the end of the interval
		}
		other := "/kubepods/poddb/" + n.instances("db").Containers[0].ID.ID
		killed <- oom.Kill{PID: 7, Process: "db", Cgroup: other, Limit: other}
		time.Sleep(10 * time.Minute)
		killed <- oom.Kill{PID: 8, Process: "sh", Cgroup: at, Limit: at}
		time.Sleep(time.Second)
		want := []string{
			"Pod webspec.containers{app} Warning OOMKilling: Process sh, PID 1, of container app was killed: the memory limit was reached",
			"Pod webspec.containers{app} Warning OOMKilling: 606 further processes of container app were killed within 1m0s: the memory limit was reached",
			"Pod dbspec.containers{app} Warning OOMKilling: Process db, PID 7, of container app was killed: the memory limit was reached",
			"Pod webspec.containers{app} Warning OOMKilling: 393 further processes of container app were killed within 1m0s: the memory limit was reached",
			"Pod webspec.containers{app} Warning OOMKilling: Process sh, PID 8, of container app was killed: the memory limit was reached",
		}
		if got := events.all(); !slices.Equal(got, want) {
			t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if got := int(lines.Load()); got != len(want) {
			t.Errorf("2002 kills have %d lines in the log, want %d, one for each event", got, len(want))
		}
	})
}

// Many kills of one unknown container do not displace the kill of another container that the agent has not seen yet.
func TestLateOOMKillsOfOneContainer(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		killed, src := make(kills), source.NewPush()
		events := &heard{}
		n.start([]source.Source{src}, reportingOOM(killed, events))
		time.Sleep(time.Second)
		for _, m := range []critest.Method{critest.ListContainers, critest.ContainerStatus} {
			n.Fault(faults.Fault{Match: faults.Match{Method: m}, Delay: 3 * time.Second})
		}
		set(t, src, asking("web", ""))
		for len(n.Journal().Of(critest.StartContainer)) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		id := n.Journal().Of(critest.StartContainer)[0].ContainerID
		for range 100 {
			killed <- oom.Kill{PID: 6, Process: "sh", Cgroup: "/k8s.io/" + strings.Repeat("0", 64), Limit: "/k8s.io"}
		}
		for pid := range 3 {
			killed <- oom.Kill{PID: 7 + pid, Process: "sh", Cgroup: "/k8s.io/" + id, Limit: "/k8s.io/" + id}
		}
		time.Sleep(2 * time.Minute)
		want := []string{
			"Pod webspec.containers{app} Warning OOMKilling: Process sh, PID 7, of container app was killed: the memory limit was reached",
			"Pod webspec.containers{app} Warning OOMKilling: 2 further processes of container app were killed within 1m0s: the memory limit was reached",
		}
		if got := events.all(); !slices.Equal(got, want) {
			t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

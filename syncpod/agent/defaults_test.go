package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/oom"
	"github.com/podsync/podsync/syncpod/source"
)

// By default, an agent runs all parts of a kubelet. For each part, one field turns off that part
// only.
func TestDefaults(t *testing.T) {
	parts := []struct {
		name string
		off  func(*agent.Config)
	}{
		{"nothing", func(*agent.Config) {}},
		{"probes", func(c *agent.Config) { c.NoProbes = true }},
		{"log rotation", func(c *agent.Config) { c.NoLogRotation = true }},
		{"container GC", func(c *agent.Config) { c.NoContainerGC = true }},
		{"image GC", func(c *agent.Config) { c.NoImageGC = true }},
		{"eviction", func(c *agent.Config) { c.NoEviction = true }},
		{"OOM events", func(c *agent.Config) { c.NoOOMEvents = true }},
	}
	for _, off := range parts {
		dir := t.TempDir()
		inBubble(t, critest.Config{Dir: dir}, func(t *testing.T, n *node) {
			done := n.doneByDefault(t, dir, off.off)
			for _, part := range parts[1:] {
				if want := part.name != off.name; done[part.name] != want {
					t.Errorf("without %s: %s is %v, want %v", off.name, part.name, done[part.name], want)
				}
			}
		})
	}
}

// doneByDefault returns the parts that an agent runs if one part is turned off.
func (n *node) doneByDefault(t *testing.T, dir string, off func(*agent.Config)) map[string]bool {
	src, short, killed, events := source.NewStaticPush("file"), newShortNode(n), make(kills, 1), &heard{}
	a := n.start([]source.Source{src}, func(c *agent.Config) {
		*c = agent.Config{Client: c.Client, Root: filepath.Join(dir, "root"), NodeName: "node-1", Sources: c.Sources, Sync: c.Sync}
		c.Stats = short
		c.Sync.Node.LogsRoot = filepath.Join(dir, "logs")
		reportingOOM(killed, events)(c)
		off(c)
	})
	web := pod("file", "web", "web", "X="+strings.Repeat("x", 1<<16)+strings.Repeat("; echo $X", 180)+"; sleep infinity")
	web.Spec.Containers[0].ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}, PeriodSeconds: 60}
	set(t, src, web, pod("file", "crashing", "crashing", "exit 3"))
	time.Sleep(time.Minute)
	killed <- oom.Kill{PID: 7, Process: "sh", Cgroup: "/kubepods/podweb/" + n.instances("web").Containers[0].ID.ID, Limit: "/kubepods"}
	time.Sleep(30 * time.Minute)
	calls := n.Journal()
	return map[string]bool{
		"probes":       calls.Count(critest.ExecSync) > 0,
		"log rotation": calls.Count(critest.ReopenContainerLog) > 0,
		"container GC": len(n.instances("crashing").Containers) < 5,
		"image GC":     calls.Count(critest.ImageFsInfo) > 0,
		"eviction":     len(a.Pressure()) > 0,
		"OOM events":   strings.Contains(fmt.Sprint(events.all()), "OOMKilling"),
	}
}

// The README has an agent with all of this in at most 25 lines of Config, and names the fields that turn
// parts off.
func TestReadme(t *testing.T) {
	text := must.Get(os.ReadFile("../../README.md"))(t)
	readme := string(text)
	_, config, found := strings.Cut(readme, "agent.New(agent.Config{\n")
	config, _, _ = strings.Cut(config, "\n})\n")
	if lines := strings.Count(config, "\n") + 1; !found || lines > 25 || strings.Contains(config, "No") && strings.Contains(config, ": true") {
		t.Errorf("the Config has %d lines:\n%s", lines, config)
	}
	for _, field := range []string{"NoProbes", "NoLogRotation", "NoContainerGC", "NoImageGC", "NoEviction", "NoOOMEvents"} {
		if !strings.Contains(readme, "`"+field+"`") {
			t.Errorf("README.md does not name %s", field)
		}
	}
}

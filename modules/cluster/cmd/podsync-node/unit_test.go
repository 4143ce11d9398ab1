package main

import (
	"os"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// TestUnitBoundsTheAgent: systemd limits the memory and the threads of the agent, restarts it when it is killed, and does
// not kill the other processes of the unit.
func TestUnitBoundsTheAgent(t *testing.T) {
	text := must.Get(os.ReadFile("podsync-node.service"))(t)
	set := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			set[name] = value
		}
	}
	for name, want := range map[string]string{
		"MemoryHigh": "768M", "MemoryMax": "1G", "OOMPolicy": "stop", "TasksMax": "2048", "Restart": "always", "KillMode": "process", "Delegate": "yes",
		"Environment": "GOMEMLIMIT=640MiB",
	} {
		if set[name] != want {
			t.Errorf("%s is %q, want %q", name, set[name], want)
		}
	}
}

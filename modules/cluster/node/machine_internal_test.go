package node

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// The capacity counts the CPUs of the machine, not only the CPUs that the agent may use.
func TestCPUsOfTheMachine(t *testing.T) {
	for text, want := range map[string]int{
		"0-3\n": 4, "0-1,4,6-7\n": 5, "0\n": 1, "0-1023\n": 1024,
		"": runtime.NumCPU(), "3-0": runtime.NumCPU(), "0-99999999999": runtime.NumCPU(), "all": runtime.NumCPU(),
	} {
		path := filepath.Join(t.TempDir(), "online")
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		if got := cpus(path); got != want {
			t.Errorf("%q: %d CPUs, want %d", text, got, want)
		}
	}
	if got := cpus(filepath.Join(t.TempDir(), "none")); got != runtime.NumCPU() {
		t.Errorf("%d CPUs without a list, want %d", got, runtime.NumCPU())
	}
}

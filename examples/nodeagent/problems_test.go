package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/podsync/podsync/syncpod/loop"
)

// The agent names the pods that it leaves alone, and the flags that may be wrong.
func TestProblemsOfUnknownPods(t *testing.T) {
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprintf("default/p%d-n1", i))
	}
	got := problemsOf(loop.Health{Sources: []loop.SourceHealth{{Unknown: names}}})
	if len(got) != 1 || got[0].Level != levelError || !hasAll(got[0].Message, []string{"default/p0-n1, ", "p9-n1, and 2 more.", "-manifests", "-node", "-stop-unknown"}) || strings.Contains(got[0].Message, "p10") {
		t.Errorf("problems %v", got)
	}
}

// The agent names the pods that -stop-unknown stops, once.
func TestStoppedPodsAreNamed(t *testing.T) {
	var out bytes.Buffer
	o := observer{screen: screenOn(&out, lines, 80, 24)}
	for range 2 {
		o.printStopped(loop.Health{Sources: []loop.SourceHealth{{Stopped: []string{"default/a-n1", "other/b-n1"}}}})
	}
	if got, want := withoutTime(out.String()), "-stop-unknown stops the pods of an earlier agent that are not in the folder: default/a-n1, other/b-n1.\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

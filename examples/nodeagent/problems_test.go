package main

import (
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

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// The pod runs, its state is stored, and it keeps running after the agent has ended.
func TestRun(t *testing.T) {
	root, err := os.MkdirTemp("", "minimal-") // shorter than t.TempDir, for the socket
	must.Do(t, err)
	defer os.RemoveAll(root)
	rt, _ := critest.Start(t, critest.Config{Dir: root})
	endpoint := must.Get(rt.Listen(filepath.Join(root, "cri.sock")))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		defer cancel()
		for ctx.Err() == nil && !remembersRunning(root) {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	must.Do(t, run(ctx, endpoint, root, true))
	if !remembersRunning(root) {
		t.Error("the pod did not become Running")
	}
	if stops := rt.Journal().Of(critest.StopContainer, critest.StopPodSandbox); len(stops) > 0 {
		t.Errorf("the end of the agent stopped the pod:\n%v", stops)
	}
}

func remembersRunning(root string) bool {
	record, _ := os.ReadFile(filepath.Join(root, "statuses", "hello-1.json"))
	return strings.Contains(string(record), `"phase":"Running"`)
}

package main

import (
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// percent returns the current GC percentage of the process.
func percent() int {
	p := debug.SetGCPercent(100)
	debug.SetGCPercent(p)
	return p
}

func TestGarbageIsCollectedOftenOnceAnAgentHasSettled(t *testing.T) {
	t.Setenv("GOGC", "")
	before := percent()
	defer debug.SetGCPercent(before)
	synctest.Test(t, func(t *testing.T) {
		c := newCollection()
		if got := percent(); got != settledPercent {
			t.Errorf("%d %% at first, want %d", got, settledPercent)
		}
		for range 10 {
			time.Sleep(time.Second)
			c.busy()
			c.settle()
			if got := percent(); got != busyPercent {
				t.Errorf("%d %% while pods change, want %d", got, busyPercent)
			}
		}
		time.Sleep(settledAfter)
		c.settle()
		if got := percent(); got != settledPercent {
			t.Errorf("%d %% when nothing has changed for %v, want %d", got, settledAfter, settledPercent)
		}
	})
}

func TestGOGCTakesPrecedence(t *testing.T) {
	t.Setenv("GOGC", "70")
	before := percent()
	c := newCollection()
	c.busy()
	if got := percent(); got != before {
		t.Errorf("%d %%, want %d as it was", got, before)
	}
}

package main

import (
	"os"
	"runtime/debug"
	"time"
)

// collection sets the frequency of garbage collection. It is low while pods change, when the agent allocates much and
// all programs on the node compete for CPU. It is high once the agent has settled, which saves 2.5 MB compared with
// Go's default for 30 pods. GOGC takes precedence.
type collection struct {
	fixed   bool // GOGC is set
	percent int  // the current setting, 0 at first
	changed time.Time
}

// The growth of the heap between two collections, in percent of its size.
const (
	busyPercent    = 200
	settledPercent = 40
)

// settledAfter is the time without changes after which the agent counts as settled.
const settledAfter = 5 * time.Second

func newCollection() *collection {
	c := &collection{fixed: os.Getenv("GOGC") != ""}
	c.settle()
	return c
}

// busy records that a pod has changed.
func (c *collection) busy() {
	c.changed = time.Now()
	c.set(busyPercent)
}

// settle checks whether the agent has settled.
func (c *collection) settle() {
	if time.Since(c.changed) >= settledAfter {
		c.set(settledPercent)
	}
}

func (c *collection) set(percent int) {
	if c.fixed || c.percent == percent {
		return
	}
	c.percent = percent
	debug.SetGCPercent(percent)
}

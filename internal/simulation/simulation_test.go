package simulation

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
)

var showTrace = flag.Bool("simulation.trace", false, "print what happens in a life")

// livesInCI is how many seeds are tried where PODSYNC_SIMULATION does not say.
const livesInCI = 12

// TestLives lives from many seeds, PODSYNC_SIMULATION of them.
func TestLives(t *testing.T) {
	lives := livesInCI
	if s := os.Getenv("PODSYNC_SIMULATION"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("PODSYNC_SIMULATION: %v", err)
		}
		lives = n
	}
	for seed := range lives {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := live(t, uint64(seed), *showTrace)
				for _, what := range tr.broken() {
					t.Error(what)
				}
				if *showTrace {
					for _, line := range tr.statusLines() {
						t.Log(line)
					}
					for _, c := range tr.calls.Changes() {
						t.Logf("%s %s %v", clock(c.Start), clock(c.End), c)
					}
				}
			})
		})
	}
}

// statusLines prints the statuses that were published.
func (tr *trace) statusLines() (lines []string) {
	for _, s := range tr.statuses {
		line := fmt.Sprintf("%s status %s %s %s", clock(s.at), s.uid, s.status.Phase, s.status.Reason)
		for _, c := range containerStatuses(s.status) {
			line += fmt.Sprintf("; %s %d", c.Name, c.RestartCount)
			switch {
			case c.State.Running != nil:
				line += " running"
			case c.State.Waiting != nil:
				line += " " + c.State.Waiting.Reason
			}
			for _, end := range ended(c) {
				line += fmt.Sprintf(" %d (%s, %.22s)", end.ExitCode, end.Reason, end.ContainerID)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

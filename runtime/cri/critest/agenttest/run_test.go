package agenttest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := timeLeft(time.Now().Add(10*time.Minute), true)
		for _, tt := range []struct {
			takes time.Duration // the duration of the scenario before
			want  bool
		}{{0, true}, {time.Minute, true}, {2 * time.Minute, true}, {2 * time.Minute, true}, {time.Minute, false}} {
			time.Sleep(tt.takes)
			if got := left(); got != tt.want {
				t.Errorf("with %v for a scenario: %t", tt.takes, got)
			}
		}
		always := timeLeft(time.Time{}, false)
		time.Sleep(time.Hour)
		if !always() {
			t.Error("a test without a deadline has no time left")
		}
	})
}

// hurried is a test whose deadline has passed.
type hurried struct {
	*testing.T
	errors []string
}

func (h *hurried) Deadline() (time.Time, bool) { return time.Now(), true }
func (h *hurried) Errorf(format string, args ...any) {
	h.errors = append(h.errors, fmt.Sprintf(format, args...))
}
func (h *hurried) Run(name string, f func(*hurried)) bool {
	return h.T.Run(name, func(t *testing.T) { f(&hurried{T: t}) })
}

// If its test has no time left, Run returns a report, and runs no further scenario.
func TestRunStopsBeforeTheDeadline(t *testing.T) {
	h := &hurried{T: t}
	played := func(Node) (Agent, error) { return nil, errors.New("it was played") }
	report := Run(h, nil, Config{Agent: played, Scenarios: Scenarios()[:3], Dir: t.TempDir()})
	if failed := report.Failed(); len(failed) != 3 || !strings.Contains(failed[2].Err, "nearly over") {
		t.Errorf("failed are %+v", failed)
	}
	if len(h.errors) != 1 || !strings.HasPrefix(h.errors[0], "3 of 3 scenarios are not played") {
		t.Errorf("errors are %q", h.errors)
	}
}

// Each scenario that ends has a report on the scenarios so far. Later scenarios do not change it.
func TestProgressReports(t *testing.T) {
	var reports []*Report
	agent := func(Node) (Agent, error) { return nil, errors.New("no agent") }
	_, err := Judge(t.Context(), Config{Agent: agent, Scenarios: Scenarios()[:3], Dir: t.TempDir(), Parallel: 1, Progress: func(p Progress) {
		if p.Ended != (p.Report != nil) {
			t.Errorf("%+v", p)
		}
		if p.Ended {
			reports = append(reports, p.Report)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	var counts []int
	for _, r := range reports {
		counts = append(counts, len(r.Scenarios))
	}
	if !slices.Equal(counts, []int{1, 2, 3}) {
		t.Errorf("the reports have %v scenarios", counts)
	}
}

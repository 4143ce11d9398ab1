package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain lets this program be its own children, as the command is.
func TestMain(m *testing.M) {
	if isChild(os.Args[1:]) {
		main()
		return
	}
	os.Exit(m.Run())
}

// A small run prints one line for each number of pods.
func TestSmallRun(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("what a process uses is measured on Linux only")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out strings.Builder
	if err := start(ctx, []string{"-pods", "1", "-pods", "50", "-idle", "100ms"}, &out); err != nil {
		t.Fatal(err)
	}
	const form = `pods %d: start \d+\.\d ms/pod cpu \d+\.\d ms/pod, idle \d+\.\d\d s cpu/min heap -?\d+\.\d kB/pod rss \d+ MB goroutines \d+, adopt \d+\.\d s cpu \d+\.\d s, stop \d+\.\d ms/pod
  a start  .*
  an idle minute .*
  an adoption .*
  a stop .* +\d+\.\d reads +\d+\.\d writes +\d+\.\d wake-ups +\d+ allocations
`
	want := regexp.MustCompile("^" + fmt.Sprintf(form, 1) + fmt.Sprintf(form, 50) + "$")
	if !want.MatchString(out.String()) {
		t.Errorf("printed %q, want %v", out.String(), want)
	}
}

func TestParse(t *testing.T) {
	s, err := parse([]string{"-pods", "10", "-pods", "20", "-idle", "1s"})
	if err != nil || !slices.Equal(s.pods, []int{10, 20}) || s.idle != time.Second {
		t.Errorf("parsed %+v, %v, want %v and %v and no error", s, err, []int{10, 20}, time.Second)
	}
	for _, wrong := range [][]string{{"-pods", "0"}, {"-pods", "x"}, {"-idle", "0s"}} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

func TestLine(t *testing.T) {
	m := measures{
		Pods: 10000, Start: 31 * time.Second, Started: work{CPU: 26 * time.Second}, Idle: 30 * time.Second, Idled: work{CPU: 25 * time.Millisecond},
		Heap: 98_000_000, Resident: 210_000_000, Goroutines: 16, Adopt: 2100 * time.Millisecond, Adopted: work{CPU: 1400 * time.Millisecond}, Stop: 29 * time.Second,
	}
	const want = "pods 10000: start 3.1 ms/pod cpu 2.6 ms/pod, idle 0.05 s cpu/min heap 9.8 kB/pod rss 210 MB goroutines 16, adopt 2.1 s cpu 1.4 s, stop 2.9 ms/pod"
	if got := m.String(); got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}

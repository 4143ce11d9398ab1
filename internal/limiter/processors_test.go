package limiter

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func TestParseTicks(t *testing.T) {
	for name, tc := range map[string]struct {
		line string
		want ticks
		ok   bool
	}{
		"Linux":            {"cpu  1 2 3 40 5 6 7 8 9 10", ticks{idle: 45, all: 72}, true},
		"an old one":       {"cpu  1 2 3 40 5 6 7 8", ticks{idle: 45, all: 72}, true},
		"too short":        {"cpu  1 2 3 40", ticks{}, false},
		"something else":   {"intr 1 2 3 4 5 6 7 8", ticks{}, false},
		"nothing":          {"", ticks{}, false},
		"not even numbers": {"cpu a b c d e f g h", ticks{}, false},
	} {
		if got, ok := parseTicks(tc.line); got != tc.want || ok != tc.ok {
			t.Errorf("%s: %+v, %v, want %+v, %v", name, got, ok, tc.want, tc.ok)
		}
	}
}

func TestSpare(t *testing.T) {
	was := ticks{idle: 1000, all: 5000}
	for name, tc := range map[string]struct {
		now        ticks
		processors int
		want       bool
	}{
		"all busy":                  {ticks{1000, 5010}, 2, false},
		"less than half of one":     {ticks{1002, 5010}, 2, false},
		"half of one":               {ticks{1003, 5012}, 2, true},
		"half of one of many":       {ticks{1001, 5128}, 64, true},
		"no time has passed":        {was, 2, true},
		"a clock that goes back":    {ticks{900, 4000}, 2, true},
		"idle time that goes back":  {ticks{999, 5010}, 2, false},
		"nothing but idle, one CPU": {ticks{1010, 5010}, 1, true},
	} {
		if got := spare(was, tc.now, tc.processors); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestReadTicks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stat")
	if _, ok := readTicks(path); ok {
		t.Error("read from a file that is not there")
	}
	must.Do(t, os.WriteFile(path, []byte("cpu  1 2 3 40 5 6 7 8 9 10\ncpu0 1 2 3 40 5 6 7 8 9 10\n"), 0o600))
	if got, ok := readTicks(path); got.idle != 45 || !ok {
		t.Errorf("read %+v, %v, want 45 and ok", got, ok)
	}
}

// Of a huge file the beginning is read.
func TestTicksOfAHugeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stat")
	must.Do(t, os.WriteFile(path, []byte("cpu  1 2 3 40 5 6 7 8\n"), 0o600))
	must.Do(t, os.Truncate(path, 1<<28))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, ok := readTicks(path)
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; !ok || got.idle != 45 || allocated > 1<<20 {
		t.Errorf("read %+v, %v, want 45 and ok, and %d bytes were allocated", got, ok, allocated)
	}
}

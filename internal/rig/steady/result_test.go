package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func TestFailedTests(t *testing.T) {
	for output, want := range map[string][]string{
		"--- FAIL: TestB (0.1s)\n    --- FAIL: TestB/sub (0.1s)\n        a_test.go:1: x\n--- FAIL: TestA (0.0s)\nFAIL\n": {"TestA", "TestB"},
		"panic: test timed out after 1s\n\trunning tests:\n\t\tTestC (1s)\n\t\tTestD/sub (1s)\n\ngoroutine 1":            {"TestC", "TestD/sub"},
		"fatal error: all goroutines are asleep": {"the process"},
	} {
		if got := failedTests(output); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
}

func TestVariants(t *testing.T) {
	for race, want := range map[bool]int{false: 3, true: 6} {
		seen := map[variant]bool{}
		for n := range 6 {
			seen[variantOf(n, race)] = true
		}
		if len(seen) != want {
			t.Errorf("six runs have met %d combinations, want %d", len(seen), want)
		}
	}
}

func TestDraw(t *testing.T) {
	draw := func(text string) []testPackage {
		packages := []testPackage{{ImportPath: "a"}, {ImportPath: "b"}, {ImportPath: "c"}, {ImportPath: "d"}, {ImportPath: "e"}}
		shuffle(packages, text)
		return packages
	}
	same := func(a, b testPackage) bool { return a.ImportPath == b.ImportPath }
	if !slices.EqualFunc(draw("2026-11-28"), draw("2026-11-28"), same) {
		t.Error("one day has two orders")
	}
	if slices.EqualFunc(draw("2026-11-28"), draw("2026-11-29"), same) {
		t.Error("two days have one order")
	}
}

func TestSpinEndsWithItsParent(t *testing.T) {
	in, parent := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		spin(in)
	}()
	_ = parent.Close()
	<-ended
}

// A module with one good test and one that fails: the good one has no failure, and the other fails in each run.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module example.com/m\n\ngo 1.26\n",
		"good/a_test.go":   "package good\n\nimport \"testing\"\n\nfunc TestGood(*testing.T) {}\n",
		"bad/a_test.go":    "package bad\n\nimport \"testing\"\n\nfunc TestGood(*testing.T) {}\n\nfunc TestBad(t *testing.T) { t.Error(\"no\") }\n",
		"untested/file.go": "package untested\n",
	} {
		file := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.Do(t, os.WriteFile(file, []byte(text), 0o644))
	}
	t.Chdir(dir)
	var out strings.Builder
	err := check(context.Background(), settings{runs: 2, timeout: time.Minute, patterns: []string{"./..."}}, &out)
	if err == nil {
		t.Error("no error")
	}
	for _, want := range []string{"example.com/m/good: 2 runs, 0 failures\n", "example.com/m/bad: 2 runs, 2 failures: TestBad 2\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"-runs", "0", "p"}, {"-busy", "-1", "p"}, {"-timeout", "0s", "p"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Each mutant still applies: what it replaces is there once, and what comes of it is Go.
func TestMutantsApply(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := os.ReadFile(filepath.Join(root, "docs", "FAILURES.md"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := mutants(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		text, err := m.mutated(root)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, text, 0); err != nil {
			t.Errorf("mutant %d (%s): %v", m.number, m.row, err)
		}
		if !regexp.MustCompile(`(?m)^\| ([A-Z]\d+, )*` + m.row + `[ ,]`).Match(rows) {
			t.Errorf("mutant %d: docs/FAILURES.md has no row %s", m.number, m.row)
		}
		if _, err := os.Stat(filepath.Join(root, m.tests)); err != nil {
			t.Errorf("mutant %d: its tests: %v", m.number, err)
		}
	}
}

// Invalid lists are errors, and so is a text that the file does not contain exactly once.
func TestMutantsRefuse(t *testing.T) {
	for what, list := range map[string]string{
		"a line of neither kind": "K1 a.go\nwhat\n-x\ny",
		"no text":                "K1 a.go\nwhat\n+x",
		"no file":                "K1\nwhat\n-x",
	} {
		if _, err := mutants(list); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("one\ntwo\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{"one\n": "1\ntwo\ntwo\n", "two\n": "", "ne\n": "", "three\n": ""} {
		got, err := mutant{file: "a.go", from: from, to: "1\n"}.mutated(root)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q and %v, want %q", from, got, err, want)
		}
	}
}

// The names of rules are read off the lines that say what was broken.
func TestRuleOf(t *testing.T) {
	for line, want := range map[string]string{
		"C1: one running container of each name: a and b":                    "C1: one running container of each name",
		"S1, S3: every pod reaches its desired state: u: it is left: really": "S1, S3: every pod reaches its desired state",
		"it did not come to its end: panic: deadlock":                        "it did not come to its end",
		"goroutine 1 [running]":                                              "",
		"syncpod: simulation: out of order":                                  "",
	} {
		if got := ruleOf(line); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

// The names of tests are read off what the go command says.
func TestFailed(t *testing.T) {
	for said, want := range map[string]string{
		"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/part (0.00s)\nFAIL\n": "TestA in `./a`",
		"panic: test timed out after 3m0s\nFAIL\n":                          "the tests of `./a` do not end",
	} {
		if got := failed([]byte(said), "./a"); len(got) != 1 || got[0] != want {
			t.Errorf("%q: got %q, want %q", said, got, want)
		}
	}
}

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The recorded decisions are explained, and one that this version makes otherwise is shown.
func TestReplay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "decisions")
	a := startAgent(t, "-record", dir)
	a.write("web.yaml", web)
	a.says("Pod", "Running", "web-n1")
	a.end()
	do := func(args ...string) (string, error) {
		var out heard
		err := runCommand(t.Context(), append([]string{"replay"}, args...), console{nil, &out, &out})
		return out.String(), err
	}
	if got, err := do(dir); err != nil || !strings.HasSuffix(got, " decisions, 0 differ.\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("%v\n%s", err, got)
	}
	got, err := do(dir, "web-n1")
	for _, want := range []string{" default/web-n1\n    create sandbox, attempt 0: the pod has no sandbox\n    start container \"app\", attempt 0: the pod starts in a new sandbox\n  because:\n", "The pod gets a new sandbox, attempt 0", " differ.\n"} {
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%v\n%s\nwant %s", err, got, want)
		}
	}
	if got, err := do(dir, "none"); exitCode(err) != exitOther || !strings.Contains(err.Error(), `no decision about pod "default/none"`) || got != "" {
		t.Errorf("%v\n%s", err, got)
	}
	file := filepath.Join(dir, "decisions.jsonl")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.ReplaceAll(text, []byte("create sandbox, attempt 0"), []byte("create sandbox, attempt 7")), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err = do(dir)
	if exitCode(err) != exitOther || err == nil || !strings.Contains(got, "    create sandbox, attempt 7: the pod has no sandbox\n") || !strings.Contains(got, "  This version decides:\n    create sandbox, attempt 0: the pod has no sandbox\n") {
		t.Errorf("%v\n%s", err, got)
	}
	if _, err := do(); exitCode(err) != exitUsage {
		t.Errorf("without a folder: %v", err)
	}
	if _, err := do(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has no decisions") {
		t.Errorf("an empty folder: %v", err)
	}
}

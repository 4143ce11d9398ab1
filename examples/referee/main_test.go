package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/agenttest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func TestOptionsAreChecked(t *testing.T) {
	for want, args := range map[string][]string{
		"the command that starts the agent is missing": {},
		"{endpoint} is neither":                        {"--", "kubelet"},
		"-parallel":                                    {"-parallel", "0", "--", "a", "{endpoint}"},
		"-loud":                                        {"-loud"},
	} {
		if _, err := parse(args, new(strings.Builder)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want %q, got %v", args, want, err)
		}
	}
}

func TestHelp(t *testing.T) {
	var s strings.Builder
	if _, err := parse([]string{"-h"}, &s); err == nil {
		t.Error("help is no run")
	}
	for _, want := range []string{"{manifests}", "Exit codes", "-html file", "-promises"} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("%q is missing in\n%s", want, s.String())
		}
	}
}

func TestListsAndPromises(t *testing.T) {
	for want, args := range map[string][]string{
		"after 60 s: watch for 20 s": {"-list"},
		"random-3":                   {"-list", "-random", "1", "-seed", "3"},
		"one-instance\n    At most one process of a container":   {"-promises"},
		"others-untouched (podsync's own)\n    Sandboxes and co": {"-promises"},
	} {
		o := must.Get(parse(args, new(strings.Builder)))(t)
		var s strings.Builder
		if code, err := o.run(t.Context(), &s, &s); code != 0 || err != nil || !strings.Contains(s.String(), want) {
			t.Errorf("%q: code %d, error %v, %q is missing in\n%s", args, code, err, want, s.String())
		}
	}
}

// If the agent cannot be started, the referee prints the error, exits with a separate code, and writes the files.
func TestAgentThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	o, err := parse([]string{"-scenarios", "idle", "-json", filepath.Join(dir, "r.json"), "-html", filepath.Join(dir, "r.html"), "--", "/no/such/agent", "{endpoint}"}, new(strings.Builder))
	must.Do(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, progress strings.Builder
	if code, err := o.run(ctx, &out, &progress); code != exitNotPlayed || err != nil {
		t.Errorf("code %d, error %v", code, err)
	}
	if !strings.Contains(progress.String(), "[1/1] idle") || !strings.Contains(out.String(), "NOT PLAYED  idle") {
		t.Errorf("progress %s, output %s", progress.String(), out.String())
	}
	var report agenttest.Report
	text, err := os.ReadFile(filepath.Join(dir, "r.json"))
	if err != nil || json.Unmarshal(text, &report) != nil || report.Agent != "/no/such/agent {endpoint}" {
		t.Errorf("the report is %+v, error %v", report, err)
	}
	if page, err := os.ReadFile(filepath.Join(dir, "r.html")); err != nil || !strings.Contains(string(page), "not played") {
		t.Errorf("the page is %s, error %v", page, err)
	}
}

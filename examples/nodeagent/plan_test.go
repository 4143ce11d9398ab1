package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/store"
)

// testPlans plans for a running agent, which runs webManifest.
func testPlans(t *testing.T, manifests string, do func(in string, args ...string) (string, error)) {
	edited := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(edited, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("web.yaml", strings.Replace(webManifest, "app:1, command: [sh, -c, \"echo of", "app:2, command: [sh, -c, \"echo of", 1))
	write("new.yaml", strings.ReplaceAll(webManifest, "name: web", "name: new"))
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("kind: Pod\n\t"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		in   string
		args []string
		want string
		err  string
	}{
		{"", []string{manifests}, "web-n1    unchanged   it is as it should be\n  first   unchanged   initialization is over\n  app     unchanged   it runs as it should\n  other   unchanged   it runs as it should\nNothing would change.\n", ""},
		{"", []string{edited}, "new-n1    starts     it is new\n  first   starts     the pod starts in a new sandbox\n  app     waits      an init container has to do its part first\n  other   waits      an init container has to do its part first\n" +
			"web-n1    restarts   its manifest changed\n  first   starts     the pod starts in a new sandbox\n  app     restarts   its manifest changed\n  other   restarts   its manifest changed\n", errChanges.Error()},
		{"", []string{filepath.Join(edited, "new.yaml")}, "web-n1    unchanged", errChanges.Error()},
		{"", []string{t.TempDir()}, "web-n1    stops   its source does not have it\n  app     stops   its pod is stopped\n  other   stops   its pod is stopped\n", errChanges.Error()},
		{strings.ReplaceAll(webManifest, "name: web", "name: typed"), []string{"-"}, "typed-n1   starts", errChanges.Error()},
		{"", []string{broken}, "Error: " + filepath.Join(manifests, "broken.yaml") + ": document 1: yaml: line 2", "1 error in the manifests"},
		{"", []string{filepath.Join(edited, "none")}, "", "no such file"},
		{"", nil, "", "the manifests are missing"},
		{"", []string{"-root", edited, "-"}, "", "-root needs a folder"},
	} {
		got, err := do(tt.in, append([]string{"plan"}, tt.args...)...)
		if !strings.Contains(got, tt.want) || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("plan %v: %v\n%s\nwant %s\n%s", tt.args, err, got, tt.err, tt.want)
		}
		if err != nil && !errors.Is(err, errChanges) && exitCode(err) != exitOther {
			t.Errorf("plan %v: exit code %d of %v", tt.args, exitCode(err), err)
		}
	}
	var p loop.Preview
	got, err := do("", "plan", "-o", "json", edited)
	if !errors.Is(err, errChanges) || json.Unmarshal([]byte(got), &p) != nil || len(p.Pods) != 2 || !p.Changes() || p.Pods[1].Effect.String() != "restarts" {
		t.Errorf("plan -o json: %v, %+v\n%s", err, p, got)
	}
}

// Without an agent the plan compares the manifests with the recorded statuses.
func TestPlanOfRecords(t *testing.T) {
	root, manifests := t.TempDir(), t.TempDir()
	files, err := store.NewFiles(filepath.Join(root, "statuses"))
	if err != nil {
		t.Fatal(err)
	}
	err = files.SetStatus(t.Context(), store.Status{Namespace: "default", Name: "old-n1", UID: "u", Runtime: &runtime.PodStatus{
		UID: "u", Namespace: "default", Name: "old-n1", Containers: []runtime.ContainerStatus{{Name: "app", ID: runtime.ContainerID{Type: "r", ID: "1"}, State: runtime.ContainerRunning}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var out heard
	err = runCommand(t.Context(), []string{"plan", "-root", root, "-node", "n1", manifests}, console{nil, &out, &out})
	if want := "old-n1   stops   its source does not have it\n  app    stops   its pod is stopped\n"; !errors.Is(err, errChanges) || out.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, &out, want)
	}
}

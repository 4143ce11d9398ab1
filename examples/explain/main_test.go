package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func TestEveryStateIsExplained(t *testing.T) {
	var out bytes.Buffer
	must.Do(t, run(&out, "", ""))
	for _, want := range append(stateNames(),
		`create sandbox, attempt 0: the pod has no sandbox`,
		`start container "web", attempt 1: it has ended and its restart policy asks for another run`,
		`kill container "web" example://web-0: its liveness probe failed, then start it again`,
		`clear container "web" example://web-0: it was created and never started`,
		`stop the pod: no container is running and none is to run again`,
		`nothing to do`,
	) {
		if !strings.Contains(out.String(), want) {
			t.Errorf("not shown: %s", want)
		}
	}
}

func TestOneState(t *testing.T) {
	var out bytes.Buffer
	must.Do(t, run(&out, "pod.yaml", "running"))
	if got := strings.Count(out.String(), "== "); got != 1 {
		t.Errorf("%d states shown, want 1:\n%s", got, &out)
	}
}

func TestRefusals(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "pod.yaml")
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for want, args := range map[string][2]string{
		`state "asleep" is not one of new,`: {"", "asleep"},
		"no such file":                      {"missing.yaml", ""},
		"not a pod manifest":                {write("kind: ["), ""},
		`unknown field "contaners"`:         {write("kind: Pod\nspec: {contaners: []}"), ""},
		"at least one container":            {write("kind: Pod"), ""},
		`are both named "a"`:                {write("kind: Pod\nspec: {containers: [{name: a}, {name: a}]}"), ""},
	} {
		if err := run(&bytes.Buffer{}, args[0], args[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run(%q): %v, want %q in it", args, err, want)
		}
	}
}

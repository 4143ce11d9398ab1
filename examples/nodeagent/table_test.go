package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var someRows = []row{
	{Namespace: "default", Name: "crashing-a", Status: "CrashLoopBackOff", Containers: 1, Restarts: 4, LastEnd: noon.Add(-40 * time.Second), Began: noon.Add(-3 * time.Minute)},
	{Namespace: "default", Name: "web-a", Status: "Running", Ready: 2, Containers: 2},
}

func TestTable(t *testing.T) {
	want := []string{
		"NAME         READY   STATUS             RESTARTS      AGE",
		"crashing-a   0/1     CrashLoopBackOff   4 (40s ago)   3m",
		"web-a        2/2     Running            0             <unknown>",
	}
	killed := someRows[0]
	killed.Killed = true
	if got := restarts(killed, noon); got != "4 (OOMKilled 40s ago)" {
		t.Errorf("restarts of a killed container: %q", got)
	}
	if got := tableOf(someRows, noon); !slices.Equal(got, want) {
		t.Errorf("got, want %v\n%s", want, strings.Join(got, "\n"))
	}
	if got := tableOf(nil, noon); len(got) != 0 {
		t.Errorf("no pods are %q", got)
	}
}

func TestTableOfNamespaces(t *testing.T) {
	rows := []row{{Namespace: "default", Name: "a"}, {Namespace: "kube-system", Name: "dns", Status: "Running"}}
	want := []string{
		"NAMESPACE     NAME   READY   STATUS    RESTARTS   AGE",
		"default       a      0/0               0          <unknown>",
		"kube-system   dns    0/0     Running   0          <unknown>",
	}
	if got := tableOf(rows, noon); !slices.Equal(got, want) {
		t.Errorf("got, want %v\n%s", want, strings.Join(got, "\n"))
	}
}

func TestFit(t *testing.T) {
	lines := []string{"NAME", "crashing", "web", "äöü"}
	for _, tt := range []struct {
		name          string
		width, height int
		want          string
	}{
		{"unknown size", 0, 0, "NAME crashing web äöü"},
		{"there is room", 80, 24, "NAME crashing web äöü"},
		{"just room for all, and for the cursor", 8, 5, "NAME crashing web äöü"},
		{"narrow", 2, 24, "NA cr we äö"},
		{"low", 80, 4, "NAME crashing and 2 more"},
		{"a line", 80, 2, "and 4 more"},
		{"no room", 80, 1, "NAME crashing web äöü"},
	} {
		if got := strings.Join(fit(lines, tt.width, tt.height), " "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if lines[2] != "web" {
		t.Errorf("the argument was changed: %q", lines)
	}
}

// On a terminal that has become narrower, the printed text occupies more lines.
func TestLinesOf(t *testing.T) {
	text := []string{"12345678", "äöü", ""}
	for width, want := range map[int]int{0: 3, 80: 3, 8: 3, 7: 4, 4: 4, 3: 5, 2: 7} {
		if got := linesOf(text, width); got != want {
			t.Errorf("%d lines at a width of %d, want %d", got, width, want)
		}
	}
}

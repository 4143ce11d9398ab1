package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
)

func screenOn(out io.Writer, f format, width, height int) *screen {
	return &screen{format: f, out: out, changed: make(chan struct{}, 1), size: func() (int, int) { return width, height }}
}

// withoutTime removes the time from the beginning of lines.
func withoutTime(text string) string {
	return regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d  `).ReplaceAllString(text, "")
}

func tellAll(s *screen) {
	about := &v1.ObjectReference{Namespace: "default", Name: "web-a", UID: "u", FieldPath: "spec.containers{app}"}
	s.Eventf(about, "Normal", "Started", "Started container %s\n", "app")
	s.Eventf(&v1.ObjectReference{Namespace: "kube-system", Name: "dns"}, "Warning", "FailedMount", "no such volume")
	s.Eventf(&v1.ObjectReference{Kind: "Node", Name: "n1"}, "Warning", "ImageGCFailed", "busy")
	s.Eventf(&v1.Pod{}, "Normal", "Ignored", "an event is about a reference")
	o := observer{screen: s, printed: map[types.UID]row{}}
	pod := aPod(v1.PodRunning, nil, restarted(container("app", isRunning()), 1, 0), container("log", isRunning()))
	pod.UID = "u"
	o.printChanges([]v1.Pod{*pod})
	o.printChanges([]v1.Pod{*pod}) // nothing new
	o.printChanges(nil)
	s.say("All is %s.", "well")
}

func TestLines(t *testing.T) {
	var out bytes.Buffer
	tellAll(screenOn(&out, lines, 80, 24))
	want := `Normal   Started            web-a app               Started container app
Warning  FailedMount        kube-system/dns         no such volume
Warning  ImageGCFailed      n1                      busy
Pod      Running            web                     2/2 ready, 1 restart
Pod      Gone               web
All is well.
`
	if got := withoutTime(out.String()); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A removed pod is printed before a new pod of the same name: the last line with a name describes the current pod.
func TestLinesOfPodsOfOneName(t *testing.T) {
	var out bytes.Buffer
	o := observer{screen: screenOn(&out, lines, 80, 24), printed: map[types.UID]row{}}
	for _, uid := range []types.UID{"b", "a", "c"} {
		pod := aPod(v1.PodRunning, nil, container("app", isRunning()))
		pod.UID = uid
		o.printChanges([]v1.Pod{*pod})
	}
	const runs, gone = "Pod      Running            web                     1/2 ready, 0 restarts\n", "Pod      Gone               web\n"
	if got, want := withoutTime(out.String()), runs+gone+runs+gone+runs; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// The name of a file may contain control characters, or text that looks like another line.
func TestLinesArePrintable(t *testing.T) {
	var out bytes.Buffer
	s := screenOn(&out, lines, 80, 24)
	s.say("%s", "a\x1b[2J\r\u202eb\n10:00:00  Pod \xff'é'")
	s.Eventf(&v1.ObjectReference{Name: "web"}, "Normal", "Pulled", "%s", "\x07\ttab")
	want := `a\x1b[2J\r\u202eb
          10:00:00  Pod �'é'
Normal   Pulled             web                     \a\ttab
`
	if got := withoutTime(out.String()); got != want {
		t.Errorf("got\n%qwant\n%q", got, want)
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	tellAll(screenOn(&out, jsonLines, 80, 24))
	var got []record
	for line := range strings.Lines(out.String()) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if r.Time.IsZero() {
			t.Errorf("without a time: %s", line)
		}
		got = append(got, r)
	}
	if len(got) != 6 {
		t.Fatalf("%d objects, want 6\n%s", len(got), &out)
	}
	if e := got[0]; e.Kind != "Event" || e.Name != "web-a" || e.UID != "u" || e.Container != "app" || e.Type != "Normal" || e.Reason != "Started" || e.Message != "Started container app" {
		t.Errorf("the event is %+v", e)
	}
	if p := got[3]; p.Kind != "Pod" || p.Reason != "Running" || p.Ready != "2/2" || *p.Restarts != 1 || len(p.Status.ContainerStatuses) != 2 {
		t.Errorf("the pod is %+v", p)
	}
	if p := got[4]; p.Kind != "Gone" || p.UID != "u" || p.Name != "web" || p.Status != nil {
		t.Errorf("the pod that is gone is %+v", p)
	}
	if m := got[5]; m.Kind != "Message" || m.Message != "All is well." {
		t.Errorf("the message is %+v", m)
	}
}

// Each problem is printed once, and so is the end of all problems.
func TestComplaints(t *testing.T) {
	var out bytes.Buffer
	o := observer{screen: screenOn(&out, lines, 80, 24)}
	bad := healthWith(&source.ManifestError{File: "web.yaml", Object: "Pod default/web", Err: errors.New("no containers"), Kept: true})
	o.printProblems(bad)
	o.printProblems(bad)
	o.printProblems(healthWith())
	o.printProblems(healthWith())
	for _, err := range []error{pleg.ErrNotListed, pleg.ErrStopped} { // at the start and at the end of the agent
		o.printProblems(loop.Health{Runtime: pleg.Health{Err: err}})
	}
	twice := healthWith(bad.Sources[0].Errors[0], bad.Sources[0].Errors[0])
	o.printProblems(twice)
	want := "web.yaml: Pod default/web: no containers. The previous version stays in effect.\n"
	want += "All is well again.\n" + want
	if got := withoutTime(out.String()); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Errors of a pod without an event are printed. Errors of steps have events, and are not printed.
func TestComplaintsOfPods(t *testing.T) {
	step := &syncpod.StepError{Step: "prepare", Reason: syncpod.ErrPreparePod, Err: errors.New("no volume")}
	health := loop.Health{Pods: []loop.SyncFailure{
		{Name: "default/web", Err: errors.Join(errors.Join(step, step), errors.New("no sink"))},
		{UID: "u", Err: fmt.Errorf("stop: %w", errors.New("no answer"))},
		{Name: "default/told", Err: step},
	}}
	want := []record{
		{Kind: "Message", Level: levelError, Message: "Pod default/web: no sink"},
		{Kind: "Message", Level: levelError, Message: "Pod u: stop: no answer"},
	}
	if got := problemsOf(health); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The JSON object of a message has its level, and the file and the document of its manifest.
func TestComplaintsInJSON(t *testing.T) {
	var out bytes.Buffer
	o := observer{screen: screenOn(&out, jsonLines, 80, 24)}
	health := healthWith(&source.ManifestError{File: "web.yaml", Document: 2, Object: "Pod default/web", Err: errors.New("no containers")})
	health.Sources[0].Warnings = []error{&source.ManifestError{File: "odd.yaml", Err: errors.New("unknown field")}}
	o.printProblems(health)
	o.printProblems(healthWith())
	for _, want := range []string{
		`"kind":"Message","message":"web.yaml: document 2: Pod default/web: no containers","level":"error","file":"web.yaml","document":2}`,
		`"kind":"Message","message":"Warning: odd.yaml: unknown field","level":"warning","file":"odd.yaml"}`,
		`"kind":"Message","message":"All is well again.","level":"info"}`,
	} {
		if line, err := out.ReadString('\n'); err != nil || !strings.HasSuffix(line, want+"\n") {
			t.Errorf("got %q, %v, want %s", line, err, want)
		}
	}
}

// terminal simulates a terminal with its scrollback. The cursor can move only within the visible lines.
type terminal struct {
	width, height int
	lines         []string // the last is the one with the cursor
}

func (t *terminal) Write(p []byte) (int, error) {
	for rest := string(p); rest != ""; {
		last := len(t.lines) - 1
		column := len(t.lines[last])
		if after, ok := strings.CutPrefix(rest, "\r"); ok {
			rest, column = after, 0
		}
		up := 0
		if n, _ := fmt.Sscanf(rest, "\x1b[%dA", &up); n == 1 {
			_, rest, _ = strings.Cut(rest, "A")
		}
		if after, ok := strings.CutPrefix(rest, "\x1b[J"); ok {
			last -= min(up, t.height-1, last)
			t.lines = append(t.lines[:last], t.lines[last][:min(column, len(t.lines[last]))])
			rest = after
			continue
		}
		text, after, ends := strings.Cut(rest, "\n")
		text = t.lines[last] + text
		for len(text) > t.width {
			t.lines = append(t.lines[:len(t.lines)-1], text[:t.width], "")
			text = text[t.width:]
		}
		t.lines[len(t.lines)-1] = text
		if ends {
			t.lines = append(t.lines, "")
		}
		rest = after
	}
	return len(p), nil
}

// On terminals of any size, the terminal shows all messages and, below them, exactly one table.
func TestTableIsDrawnInPlace(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		term := &terminal{width: 20 + random.IntN(60), height: 3 + random.IntN(10), lines: []string{""}}
		s := screenOn(term, table, term.width, term.height)
		said, rows := 0, []row{}
		for range 30 {
			if random.IntN(2) == 0 {
				s.say("message %d %s", said, strings.Repeat("x", random.IntN(100)))
				said++
				continue
			}
			rows = rows[:0]
			for i := range random.IntN(12) {
				rows = append(rows, row{Namespace: "default", Name: fmt.Sprintf("pod%d", i), Status: "CrashLoopBackOff"})
			}
			s.show(rows, 0)
		}
		all := strings.Join(term.lines, "\n")
		if got := strings.Count(all, "  message "); got != said {
			t.Fatalf("%d messages of %d on, want %v\n%s", got, said, said, all)
		}
		if got := strings.Count(all, "NAME"); got != min(len(rows), 1) {
			t.Fatalf("%d tables on, want %v\n%s", got, min(len(rows), 1), all)
		}
		want := fit(tableOf(rows, time.Now()), term.width, term.height)
		if got := strings.Join(term.lines[len(term.lines)-1-len(want):len(term.lines)-1], "\n"); got != strings.Join(want, "\n") {
			t.Fatalf("the table is\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	}
}

// The last message is below the table, and typed characters are overwritten.
func TestClose(t *testing.T) {
	term := &terminal{width: 80, height: 24, lines: []string{""}}
	s := screenOn(term, table, 80, 24)
	s.folder, s.inspect = "/etc/pods", "nodeagent explain POD"
	s.warning = "Warning: logs"
	s.show(someRows, 2)
	if got, want := strings.Join(term.lines, "\n"), "\nManifests: /etc/pods (2 rejected: see above)\nWhy does a pod wait? nodeagent explain POD\nWarning: logs\n"; !strings.HasSuffix(got, want) {
		t.Errorf("the terminal shows\n%s\nwant at the end%s", got, want)
	}
	s.Eventf(&v1.ObjectReference{Name: "web"}, "Normal", "Pulled", "%s", strings.Repeat("x", 100))
	if got := term.lines[0]; len(got) != 80 || !strings.HasSuffix(got, "  xxxxxxxxxxxxxxxxxx") || !strings.HasPrefix(term.lines[1], "NAME") {
		t.Errorf("the event is not cut: %q", term.lines)
	}
	term.lines = []string{""}
	s.drawn = nil
	s.show(someRows, 0)
	fmt.Fprint(term, "^C")
	s.show(someRows, 0)
	if got := strings.Join(term.lines, "\n"); !strings.HasPrefix(got, "NAME ") || strings.Contains(got, "^C") {
		t.Errorf("the terminal shows\n%s", got)
	}
	fmt.Fprint(term, "^C")
	s.close("Detached from %d pods.", 2)
	got := withoutTime(strings.Join(term.lines, "\n"))
	if !strings.HasPrefix(got, "NAME") || !strings.HasSuffix(got, "\nDetached from 2 pods.\n") {
		t.Errorf("the terminal shows\n%s", got)
	}
}

func TestFileIsNoTerminal(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "out"), os.DevNull} {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if s := newScreen(f, ""); s.format != lines {
			t.Errorf("%s is shown format %d", name, s.format)
		}
		if s := newScreen(f, "json"); s.format != jsonLines {
			t.Errorf("%s is shown format %d for -o json", name, s.format)
		}
	}
}

func healthWith(errs ...error) loop.Health {
	return loop.Health{Sources: []loop.SourceHealth{{Name: "file", Errors: errs}}}
}

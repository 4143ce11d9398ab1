package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podsync/podsync/runtime/foreign"
)

// format is the output format of a screen.
type format int

const (
	lines     format = iota // a line for each event and each change to a pod
	table                   // a table that is redrawn in place, with the events above it
	jsonLines               // an object for each event and change
)

// screen prints the pods, their changes and their events. The agent sends events and statuses to it.
type screen struct {
	format format
	// size returns the terminal's size.
	size func() (width, height int)
	// changed has a value if pods have changed since the last update.
	changed chan struct{}
	mu      sync.Mutex
	out     io.Writer
	rows    []row // of the table
	// folder and inspect are for the lines below the table: the manifests, and the command that explains a pod. Without a
	// folder there are none.
	folder, inspect string
	// warning stays below the table, empty if there is none.
	warning  string
	rejected int      // manifests
	drawn    []string // the table's lines on the terminal
}

func newScreen(out *os.File, output string) *screen {
	s := &screen{out: out, changed: make(chan struct{}, 1)}
	s.size = func() (width, height int) {
		width, height, _ = terminalSize(out)
		return width, height
	}
	if _, _, ok := terminalSize(out); output == "json" {
		s.format = jsonLines
	} else if ok && os.Getenv("TERM") != "dumb" {
		s.format = table
	}
	return s
}

// SetPodStatus records that a pod has changed.
func (s *screen) SetPodStatus(context.Context, *v1.Pod, v1.PodStatus) error {
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return nil
}

// Eventf prints an event.
func (s *screen) Eventf(object k8sruntime.Object, eventType, reason, format string, args ...any) {
	about, ok := object.(*v1.ObjectReference)
	if !ok {
		return
	}
	s.print(record{
		Kind: "Event", Namespace: about.Namespace, Name: about.Name, UID: about.UID, Container: containerOf(about.FieldPath),
		Type: eventType, Reason: reason, Message: strings.TrimSpace(fmt.Sprintf(format, args...)),
	})
}

// containerOf returns the name in spec.containers{name}.
func containerOf(fieldPath string) string {
	_, name, _ := strings.Cut(fieldPath, "{")
	return strings.TrimSuffix(name, "}")
}

// say prints a message that concerns no pod.
func (s *screen) say(format string, args ...any) {
	s.print(record{Kind: "Message", Level: levelInfo, Message: fmt.Sprintf(format, args...)})
}

// close prints a last message. The last table stays above it.
func (s *screen) close(format string, args ...any) {
	s.mu.Lock()
	s.rows, s.drawn, s.folder = nil, nil, ""
	s.mu.Unlock()
	s.say(format, args...)
}

// print prints a record, above the table if there is one. It ignores write errors, because there is no other output.
func (s *screen) print(r record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Time = time.Now()
	if s.format == jsonLines {
		_ = printJSON(s.out, r, "")
		return
	}
	text := r.String()
	if width, _ := s.size(); s.format == table && r.Kind == "Event" { // nodeagent timeline has all of it
		text = strings.Join(fit(strings.Split(text, "\n"), width, 0), "\n")
	}
	s.draw(text + "\n")
}

// show draws the table with new rows, and the number of rejected manifests.
func (s *screen) show(rows []row, rejected int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows, s.rejected = rows, rejected
	s.draw("")
}

// draw replaces the old table by text and the new table, in one write to avoid flicker. It must be called with mu held.
func (s *screen) draw(text string) {
	var b bytes.Buffer
	width, height := s.size()
	if s.format == table {
		b.WriteString("\r") // the terminal shows typed characters, such as ^C, after the table
		if len(s.drawn) > 0 {
			fmt.Fprintf(&b, "\x1b[%dA", linesOf(s.drawn, width))
		}
		b.WriteString("\x1b[J")
	}
	b.WriteString(text)
	s.drawn = s.tableWithFooter(width, height)
	for _, line := range s.drawn {
		b.WriteString(line + "\n")
	}
	_, _ = s.out.Write(b.Bytes())
}

// tableWithFooter returns the lines in the table and those below it, which a low terminal does not show.
func (s *screen) tableWithFooter(width, height int) []string {
	footer := s.footer()
	if height > 0 && height < len(footer)+5 {
		footer = nil
	}
	return append(fit(tableOf(s.rows, time.Now()), width, max(height-len(footer), 0)), fit(footer, width, 0)...)
}

// footer returns the lines below the table.
func (s *screen) footer() []string {
	if s.format != table || s.folder == "" {
		return nil
	}
	manifests := "Manifests: " + foreign.Line(s.folder)
	if s.rejected > 0 {
		manifests += fmt.Sprintf(" (%d rejected: see above)", s.rejected)
	}
	footer := []string{manifests, "Why does a pod wait? " + s.inspect}
	if s.warning != "" {
		footer = append(footer, s.warning)
	}
	return footer
}

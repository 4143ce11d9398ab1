package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/agenttest"
)

// run runs the scenarios, and returns the exit code.
func (o options) run(ctx context.Context, stdout, stderr io.Writer) (code int, err error) {
	scenarios, err := o.chosen()
	switch {
	case err != nil:
		return exitUsage, err
	case o.list:
		return 0, list(stdout, scenarios)
	case o.promises:
		return 0, promises(stdout)
	}
	program := agenttest.Program{Command: o.command}
	if o.config != "" {
		text, err := os.ReadFile(o.config)
		if err != nil {
			return exitUsage, fmt.Errorf("-config: %w", err)
		}
		program.Config = string(text)
	}
	if o.logs != "" {
		file, err := os.Create(o.logs)
		if err != nil {
			return exitUsage, fmt.Errorf("-output: %w", err)
		}
		defer file.Close()
		program.Output = &shared{w: file}
	}
	report, err := agenttest.Judge(ctx, agenttest.Config{
		Agent: program.Agent, Scenarios: scenarios, Notice: o.notice, Patience: o.patience, Parallel: o.parallel, Progress: o.progress(stderr),
	})
	if err != nil {
		return exitNotPlayed, err
	}
	if err := errors.Join(o.write(report), report.WriteText(stdout)); err != nil {
		return exitNotPlayed, err
	}
	return codeOf(report), nil
}

func codeOf(r *agenttest.Report) int {
	switch {
	case len(r.Failed()) > 0:
		return exitNotPlayed
	case len(r.Broken()) > 0:
		return exitBroken
	}
	return 0
}

// write writes the requested files.
func (o options) write(r *agenttest.Report) error {
	r.Agent = strings.Join(o.command, " ")
	var errs []error
	if o.json != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		errs = append(errs, err, os.WriteFile(o.json, append(text, '\n'), 0o644))
	}
	if o.html != "" {
		var page bytes.Buffer
		errs = append(errs, r.WriteHTML(&page), os.WriteFile(o.html, page.Bytes(), 0o644))
	}
	return errors.Join(errs...)
}

// shared is a writer that several agents use.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(text)
}

// progress prints a line for each finished scenario, and rewrites the files, so that a killed run leaves a report on
// its finished scenarios.
func (o options) progress(w io.Writer) func(agenttest.Progress) {
	return func(p agenttest.Progress) {
		if !p.Ended {
			return
		}
		if err := o.write(p.Report); err != nil {
			fmt.Fprintln(w, "referee:", err)
		}
		switch {
		case p.Err != nil:
			fmt.Fprintf(w, "[%d/%d] %-34s %6s  could not run: %v\n", p.Done, p.All, p.Scenario, p.Took.Round(time.Second), p.Err)
		case len(p.Broken) > 0:
			fmt.Fprintf(w, "[%d/%d] %-34s %6s  breaks %s\n", p.Done, p.All, p.Scenario, p.Took.Round(time.Second), strings.Join(p.Broken, ", "))
		default:
			fmt.Fprintf(w, "[%d/%d] %-34s %6s  ok\n", p.Done, p.All, p.Scenario, p.Took.Round(time.Second))
		}
	}
}

// list prints the scenarios, one line for each step.
func list(w io.Writer, all []agenttest.Scenario) error {
	for _, sc := range all {
		fmt.Fprintln(w, sc.Name)
		for _, step := range sc.Steps {
			fmt.Fprintf(w, "    %s\n", words(step))
		}
	}
	return nil
}

// words describes a step, such as "after 60 s: watch for 20 s".
func words(step agenttest.Step) string {
	var s strings.Builder
	if step.After > 0 {
		fmt.Fprintf(&s, "after %v s: ", step.After)
	}
	s.WriteString(step.Do)
	for _, detail := range []string{step.Pod, step.Container, string(step.Method), step.Effect} {
		if detail != "" {
			s.WriteString(" " + detail)
		}
	}
	if step.N > 0 {
		fmt.Fprintf(&s, " (%d)", step.N)
	}
	if step.For > 0 {
		fmt.Fprintf(&s, " for %v s", step.For)
	}
	if step.Disconnect {
		s.WriteString(", and disconnect")
	}
	return s.String()
}

func promises(w io.Writer) error {
	for p := range agenttest.Promises() {
		own := ""
		if p.Own {
			own = " (podsync's own)"
		}
		fmt.Fprintf(w, "%s%s\n    %s\n    Promised in %s\n    Judged by: %s\n", p.Name, own, p.Sentence, p.Source, p.Evidence)
		if p.Breaks != "" {
			fmt.Fprintf(w, "    Broken in practice: %s\n", p.Breaks)
		}
	}
	return nil
}

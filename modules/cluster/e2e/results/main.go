package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// A report contains the fields of a ginkgo report that the command reads.
type report struct {
	StartTime   time.Time
	SpecReports []spec
}

type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
	RunTime                 time.Duration
	Failure                 struct{ Message string }
}

// ran reports whether the spec is a test that no filter left out. A test that skips itself has a message.
func (s spec) ran() bool {
	return s.LeafNodeType == "It" && s.State != "pending" && (s.State != "skipped" || s.Failure.Message != "")
}

func (s spec) name() string {
	return strings.Join(append(slices.Clone(s.ContainerHierarchyTexts), s.LeafNodeText), " ")
}

// An agent has each test's last result by name.
type agent struct {
	name  string
	specs map[string]spec
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) < 2 {
		return errors.New("usage: results ABOUT AGENT=REPORT[,REPORT] [AGENT=REPORT]")
	}
	var agents []agent
	var date time.Time
	for _, arg := range args[1:] {
		name, files, _ := strings.Cut(arg, "=")
		a := agent{name, map[string]spec{}}
		for file := range strings.SplitSeq(files, ",") {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			var reports []report
			if err := json.Unmarshal(text, &reports); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			for _, r := range reports {
				date = r.StartTime
				a.add(r)
			}
		}
		agents = append(agents, a)
	}
	_, err := io.WriteString(out, table(args[0], date, agents))
	return err
}

func (a agent) add(r report) {
	for _, s := range r.SpecReports {
		if s.ran() {
			a.specs[s.name()] = s
		}
	}
}

// table returns the file. A test without a report of an agent has "not run" in the agent's column.
func table(about string, date time.Time, agents []agent) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s, %s\ntest", about, date.UTC().Format(time.DateOnly))
	tests := map[string]bool{}
	for _, a := range agents {
		b.WriteString("\t" + a.name)
		for name := range a.specs {
			tests[name] = true
		}
	}
	if len(agents) == 1 {
		b.WriteString("\tseconds")
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		b.WriteString("\n" + name)
		for _, a := range agents {
			s, ok := a.specs[name]
			switch {
			case !ok:
				b.WriteString("\tnot run")
			case s.State == "passed" || s.State == "skipped":
				b.WriteString("\t" + s.State)
			default: // failed, timedout, panicked, interrupted, aborted
				b.WriteString("\tfailed")
			}
			if len(agents) == 1 {
				fmt.Fprintf(&b, "\t%.0f", s.RunTime.Seconds())
			}
		}
	}
	b.WriteString("\n")
	return b.String()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/recorder"
)

// recordDecisions makes the agent record its decisions if -record is set.
func (o options) recordDecisions(c *agent.Config) error {
	if o.record == "" {
		return nil
	}
	_ = os.MkdirAll(o.record, 0o700) // private, unlike what makeFolder creates, which returns the error
	dir, err := makeFolder("-record", o.record)
	if err != nil {
		return err
	}
	r, err := recorder.New(recorder.Config{Dir: dir})
	if err != nil {
		return err
	}
	c.Sync.Decided, c.Parts = r.Record, append(c.Parts, r)
	return nil
}

// replay is nodeagent replay.
func replay(ctx context.Context, l *invocation) error {
	if len(l.names) < 1 || len(l.names) > 2 {
		return wrongUsage{errors.New("want the folder of -record, and a pod at most")}
	}
	pod := ""
	if len(l.names) == 2 {
		if pod = l.names[1]; !strings.Contains(pod, "/") {
			pod = "default/" + pod
		}
	}
	decisions, differ := 0, 0
	err := recorder.Read(l.names[0], func(d recorder.Decision) error {
		if pod != "" && d.Name != pod {
			return ctx.Err()
		}
		in := d.Input()
		now := actions.Compute(in).String()
		decisions++
		if pod == "" && now == d.Plan {
			return ctx.Err()
		}
		fmt.Fprintf(l.out, "%s %s\n%s", d.Time.Format(time.RFC3339), foreign.Line(d.Name), indented(d.Plan))
		if now != d.Plan {
			differ++
			fmt.Fprintf(l.out, "  This version decides:\n%s", indented(now))
		}
		if pod != "" {
			fmt.Fprintf(l.out, "  because:\n%s", indented(actions.ExplainPod(in)))
		}
		return ctx.Err()
	})
	if err != nil {
		return &failure{exitOther, "", unprefixed(err, "recorder: ")}
	}
	if pod != "" && decisions == 0 {
		return &failure{exitOther, "get shows the names of pods.", fmt.Errorf("no decision about pod %q is recorded", pod)}
	}
	fmt.Fprintf(l.out, "%s, %d differ.\n", plural(decisions, "decision"), differ)
	if differ > 0 {
		return &failure{exitOther, "", errors.New("this version decides otherwise")}
	}
	return nil
}

// indented returns the lines of a text, each indented.
func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + foreign.Line(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}

package agenttest

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
)

const (
	// mostLines limits a story: it contains the last lines before the violation.
	mostLines = 24
	// look is how far back a story goes that concerns no single pod.
	look = 10 * time.Second
)

// story returns the events before a violation: the scenario's actions, the agent's calls, and the
// processes.
func (h *history) story(where at) []Line {
	lines := slices.Concat(h.asked(where), h.called(where), h.ran(where), h.saying(where))
	slices.SortStableFunc(lines, func(a, b Line) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	if n := len(lines) - mostLines; n > 0 {
		lines = shorten(lines, n)
	}
	if !slices.ContainsFunc(lines, func(l Line) bool { return l.Wrong }) {
		lines = append(lines, Line{At: h.since(where.t), Who: "now", Text: "here it is not kept", Wrong: true})
	}
	return lines
}

// shorten removes n lines: first the oldest lines that are not actions of the scenario.
func shorten(lines []Line, n int) []Line {
	return slices.DeleteFunc(lines, func(l Line) bool {
		if n > 0 && l.Who != "asked" && !l.Wrong {
			n--
			return true
		}
		return false
	})
}

func (h *history) asked(where at) []Line {
	var lines []Line
	for _, a := range h.acts {
		if !a.at.After(where.t) && (a.uid == "" || a.uid == where.uid) {
			text := a.text
			if a.uid != "" {
				text = h.nameOf(a.uid) + ": " + text
			}
			lines = append(lines, Line{At: h.since(a.at), Who: "asked", Text: text})
		}
	}
	return lines
}

// called returns the CRI calls before the violation that change its pod. If the violation concerns no
// pod, it returns all calls of the last seconds.
func (h *history) called(where at) []Line {
	var lines []Line
	for _, c := range h.calls {
		about := uid(c) == where.uid && where.uid != "" && (changes[c.Method] || c.N == where.call)
		if where.uid == "" {
			about = c.Start.After(where.t.Add(-look))
		}
		if !about || c.Start.After(where.t) {
			continue
		}
		l := Line{At: h.since(c.Start), Who: "called", Text: callText(c), Wrong: c.N == where.call}
		if c.Duration() >= 10*time.Millisecond {
			l.Until = h.since(c.End)
		}
		lines = append(lines, l)
	}
	return lines
}

var changes = map[critest.Method]bool{
	critest.RunPodSandbox: true, critest.StopPodSandbox: true, critest.RemovePodSandbox: true, critest.CreateContainer: true, critest.StartContainer: true,
	critest.StopContainer: true, critest.RemoveContainer: true, critest.PullImage: true, critest.ExecSync: true,
	critest.UpdateContainerResources: true, critest.UpdatePodSandboxResources: true,
}

// callText describes a call in one line: its subject, and its result.
func callText(c call) string {
	text := string(c.Method)
	if c.Container != "" {
		text += fmt.Sprintf(" %s attempt %d", c.Container, c.Attempt)
	}
	switch q := c.request.(type) {
	case *runtimeapi.StopContainerRequest:
		text += fmt.Sprintf(" with %d s", q.GetTimeout())
	case *runtimeapi.ExecSyncRequest:
		text += fmt.Sprintf(" %q", q.GetCmd())
	case *runtimeapi.RunPodSandboxRequest:
		text += fmt.Sprintf(" attempt %d", c.Attempt)
	case *runtimeapi.PullImageRequest:
		text += " " + c.Image
	}
	switch {
	case !c.Done():
		text += ", which did not end"
	case c.Err != nil:
		text += ", answered " + status.Code(c.Err).String()
	}
	if c.Fault != "" {
		text += " (trouble " + c.Fault + ")"
	}
	return text
}

func (h *history) ran(where at) []Line {
	var lines []Line
	for _, p := range h.of(where.uid) {
		if p.Started.After(where.t) {
			continue
		}
		l := Line{At: h.since(p.Started), Who: "ran", Text: fmt.Sprintf("%s attempt %d runs", p.Container, p.Attempt), Wrong: p.ContainerID == where.container && where.call == 0}
		if !p.Ended.IsZero() && !p.Ended.After(where.t) {
			l.Text = fmt.Sprintf("%s attempt %d runs, and ends with %d", p.Container, p.Attempt, p.ExitCode)
			l.Until = h.since(p.Ended)
		}
		lines = append(lines, l)
	}
	return lines
}

// saying returns the pod's reported statuses.
func (h *history) saying(where at) []Line {
	var lines []Line
	for _, t := range h.statuses {
		if t.uid == where.uid && !t.at.After(where.t) {
			lines = append(lines, Line{At: h.since(t.at), Who: "told", Text: statusText(t), Wrong: t.at.Equal(where.t) && where.call == 0 && where.container == ""})
		}
	}
	return lines
}

func statusText(t reported) string {
	text := string(t.status.Phase)
	for _, c := range containerStatuses(t.status) {
		state := "waiting"
		switch {
		case c.State.Running != nil:
			state = "running"
		case c.State.Terminated != nil:
			state = fmt.Sprintf("ended with %d", c.State.Terminated.ExitCode)
		}
		text += fmt.Sprintf("; %s %s, %d restarts", c.Name, state, c.RestartCount)
	}
	return text
}

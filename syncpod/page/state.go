package page

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
	"github.com/podsync/podsync/syncpod/status/summary"
)

// An Agent has the pods that a Page shows. An *agent.Agent implements it, and a *loop.Loop.
type Agent interface {
	Pods() []loop.Pod
	Health() loop.Health
	Explain(pod types.UID) string
}

// A state is the page's view of all pods.
type state struct {
	Node     string    `json:"node"`
	Timeline bool      `json:"timeline"`
	Problems []problem `json:"problems"`
	Pods     []podLine `json:"pods"`
	Events   []event   `json:"events"`
}

// A problem concerns no single pod.
type problem struct {
	Kind    string `json:"k"` // manifest, warning or agent
	File    string `json:"f,omitempty"`
	Message string `json:"m"`
}

// A podLine is a pod in the list.
type podLine struct {
	UID       types.UID `json:"u"`
	Namespace string    `json:"ns"`
	Name      string    `json:"n"`
	Ready     string    `json:"r"`
	Status    string    `json:"s"`
	Class     class     `json:"k"`
	Message   string    `json:"m,omitempty"`
	Restarts  int32     `json:"x,omitempty"`
	LastEnd   int64     `json:"e,omitempty"`
	Killed    bool      `json:"o,omitempty"`
	Began     int64     `json:"b,omitempty"`
}

// A class decides on the color of a pod.
type class string

const (
	runs    class = "runs"    // all of its containers are ready
	done    class = "done"    // it has completed
	changes class = "changes" // it starts or stops
	unready class = "unready" // it runs, but is not ready
	fails   class = "fails"
)

// stateOf returns the agent's state.
func (p *Page) stateOf(a Agent) state {
	health := a.Health()
	s := state{
		Node: foreign.Line(p.config.NodeName), Timeline: p.config.Timeline != nil, Problems: problemsOf(health), Pods: []podLine{}, Events: p.newest(shownEvents, ""),
	}
	failures := map[types.UID]error{}
	for _, f := range health.Pods {
		failures[f.UID] = f.Err
	}
	for _, pod := range a.Pods() {
		s.Pods = append(s.Pods, lineOf(&pod, failures[pod.Pod.UID]))
	}
	return s
}

// lineOf summarizes a pod. failure is the error of its work.
func lineOf(p *loop.Pod, failure error) podLine {
	pod := *p.Pod
	pod.Status = p.Status
	if p.Removed && pod.DeletionTimestamp == nil {
		pod.DeletionTimestamp = &metav1.Time{}
	}
	sum := summary.Of(&pod)
	if p.Phase.IsOrphan() {
		sum.Status = "Removing"
	}
	line := podLine{
		UID: pod.UID, Namespace: foreign.Line(sum.Namespace), Name: foreign.Line(sum.Name), Ready: sum.Readiness(), Status: foreign.Word(sum.Status),
		Restarts: sum.Restarts, LastEnd: milliseconds(sum.LastEnd), Killed: sum.Killed, Began: milliseconds(sum.Began),
	}
	trouble, waits := waiting(&pod.Status)
	switch {
	case failure != nil || trouble || pod.Status.Phase == v1.PodFailed:
		line.Class = fails
	case pod.Status.Phase == v1.PodSucceeded:
		line.Class = done
	case pod.DeletionTimestamp != nil || p.Phase != podworkers.Syncing || waits || pod.Status.Phase != v1.PodRunning:
		line.Class = changes
	case sum.Ready < sum.Containers:
		line.Class = unready
	default:
		line.Class = runs
	}
	if failure != nil {
		line.Message = foreign.Cut(failure.Error(), maxMessage)
	} else {
		line.Message = foreign.Cut(messageOf(&pod.Status), maxMessage)
	}
	return line
}

// waiting reports whether a container waits because of a failure, and whether one waits at all.
func waiting(s *v1.PodStatus) (trouble, waits bool) {
	for _, c := range containersOf(s) {
		if w := c.State.Waiting; w != nil {
			waits = true
			trouble = trouble || w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing"
		}
	}
	return trouble, waits
}

// messageOf returns why a pod or its first waiting container is in its state.
func messageOf(s *v1.PodStatus) string {
	for _, c := range containersOf(s) {
		if w := c.State.Waiting; w != nil && w.Message != "" {
			return w.Message
		}
	}
	return s.Message
}

func containersOf(s *v1.PodStatus) []v1.ContainerStatus {
	if len(s.InitContainerStatuses)+len(s.EphemeralContainerStatuses) == 0 {
		return s.ContainerStatuses
	}
	all := append([]v1.ContainerStatus{}, s.InitContainerStatuses...)
	return append(append(all, s.ContainerStatuses...), s.EphemeralContainerStatuses...)
}

func milliseconds(at time.Time) int64 {
	if at.Unix() <= 0 {
		return 0
	}
	return at.UnixMilli()
}

// problemsOf returns the problems that concern no single pod.
func problemsOf(h loop.Health) []problem {
	all := []problem{}
	add := func(kind, format string, err error) {
		if err == nil {
			return
		}
		p := problem{Kind: kind, Message: foreign.Line(fmt.Sprintf(format, err))}
		if e, ok := errors.AsType[*source.ManifestError](err); ok {
			p.File = foreign.Line(e.File)
			p.Message = foreign.Line(fmt.Sprintf(format, err) + keptNote(e))
		}
		all = append(all, p)
	}
	if err := h.Runtime.Err; err != nil && !errors.Is(err, pleg.ErrNotListed) && !errors.Is(err, pleg.ErrStopped) {
		add("agent", "The runtime has not answered since "+h.Runtime.Since.UTC().Format(time.RFC3339)+", and this is the last known state: %v", err)
	} else if err == nil {
		add("agent", "The runtime does not list its pods: %v", h.Runtime.ListErr)
	}
	for _, err := range append(append([]error{}, h.Conflicts...), h.Store) {
		add("agent", "%v", err)
	}
	for _, s := range h.Sources {
		for _, err := range s.Errors {
			add("manifest", "%v", err)
		}
		for _, err := range s.Warnings {
			add("warning", "%v", err)
		}
		if len(s.Unknown) > 0 {
			add("agent", "The source knows none of the pods that an earlier agent has left. They stay as they are, and no other pod starts: %v", errors.New(strings.Join(s.Unknown, ", ")))
		}
		add("agent", "%v", s.Failed)
	}
	return all
}

func keptNote(e *source.ManifestError) string {
	if e.Kept {
		return ". The previous version stays in effect."
	}
	return ""
}

// A detail is the page's view of one pod.
type detail struct {
	podLine
	Explanation string          `json:"explanation"`
	Address     string          `json:"address,omitempty"`
	Containers  []containerLine `json:"containers"`
	Events      []event         `json:"events"`
}

// A containerLine is a container of a pod.
type containerLine struct {
	Name     string `json:"n"`
	Kind     string `json:"k,omitempty"` // init, sidecar or ephemeral
	Image    string `json:"i"`
	State    string `json:"s"`
	Why      string `json:"w,omitempty"`
	Since    int64  `json:"t,omitempty"`
	Ready    bool   `json:"r,omitempty"`
	Restarts int32  `json:"x,omitempty"`
	Last     string `json:"l,omitempty"`
}

// detailOf returns the page's view of a pod, and false for an unknown pod.
func (p *Page) detailOf(a Agent, uid types.UID) (detail, bool) {
	for _, pod := range a.Pods() {
		if pod.Pod.UID != uid {
			continue
		}
		var failure error
		for _, f := range a.Health().Pods {
			if f.UID == uid {
				failure = f.Err
			}
		}
		d := detail{podLine: lineOf(&pod, failure), Explanation: foreign.CutText(a.Explain(uid), 16<<10), Address: foreign.Word(pod.Status.PodIP), Events: p.newest(maxPodEvents, uid)}
		d.Containers = containerLines(&pod)
		return d, true
	}
	return detail{}, false
}

func containerLines(p *loop.Pod) []containerLine {
	statuses := map[string]v1.ContainerStatus{}
	for _, c := range containersOf(&p.Status) {
		statuses[c.Name] = c
	}
	lines := []containerLine{}
	add := func(kind, name, image string) {
		line := containerLine{Name: foreign.Line(name), Kind: kind, Image: foreign.Line(image), State: "Waiting"}
		if s, ok := statuses[name]; ok {
			line.status(&s)
		}
		lines = append(lines, line)
	}
	for i := range p.Pod.Spec.InitContainers {
		c, kind := &p.Pod.Spec.InitContainers[i], "init"
		if runtime.IsSidecar(c) {
			kind = "sidecar"
		}
		add(kind, c.Name, c.Image)
	}
	for _, c := range p.Pod.Spec.Containers {
		add("", c.Name, c.Image)
	}
	for _, c := range p.Pod.Spec.EphemeralContainers {
		add("ephemeral", c.Name, c.Image)
	}
	return lines
}

func (l *containerLine) status(s *v1.ContainerStatus) {
	l.Ready, l.Restarts = s.Ready, s.RestartCount
	switch {
	case s.State.Running != nil:
		l.State, l.Since = "Running", milliseconds(s.State.Running.StartedAt.Time)
	case s.State.Terminated != nil:
		l.State, l.Since = "Terminated", milliseconds(s.State.Terminated.FinishedAt.Time)
		l.Why = exit(s.State.Terminated)
	case s.State.Waiting != nil:
		l.Why = foreign.Word(s.State.Waiting.Reason)
	}
	if last := s.LastTerminationState.Terminated; last != nil {
		l.Last = exit(last)
	}
}

// exit describes an exit without the container's own message.
func exit(t *v1.ContainerStateTerminated) string {
	reason := cmp.Or(t.Reason, "Terminated")
	if t.Signal != 0 {
		return foreign.Word(fmt.Sprintf("%s, signal %d", reason, t.Signal))
	}
	return foreign.Word(fmt.Sprintf("%s, exit code %d", reason, t.ExitCode))
}

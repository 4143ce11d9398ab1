package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod/loop"
)

// format is how a screen shows what happens.
type format int

const (
	lines format = iota // a line for each event and each change of a pod
	table               // a table that is drawn anew in place, with the events above it
	jsonLines
)

// screen shows the pods and what happens to them. It is where the agent sends
// events and statuses.
type screen struct {
	format format
	// changed holds one when there is something new to show.
	changed chan struct{}

	mu    sync.Mutex
	out   io.Writer
	pods  []*v1.Pod
	told  map[types.UID]row // what was last said of each pod
	drawn int               // lines of the table that stand on the terminal
	wrong []string          // what was last complained of
}

func newScreen(out *os.File, output string) *screen {
	s := &screen{out: out, changed: make(chan struct{}, 1), told: map[types.UID]row{}}
	if info, err := out.Stat(); output == "json" {
		s.format = jsonLines
	} else if err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" {
		s.format = table
	}
	return s
}

// SetPodStatus tells that a pod has changed.
func (s *screen) SetPodStatus(context.Context, *v1.Pod, v1.PodStatus) error {
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return nil
}

// Eventf shows an event.
func (s *screen) Eventf(object k8sruntime.Object, eventType, reason, format string, args ...any) {
	pod, ok := object.(*v1.ObjectReference)
	if !ok {
		return
	}
	message := strings.TrimSpace(fmt.Sprintf(format, args...))
	if s.format == jsonLines {
		s.print("", map[string]any{
			"kind": "Event", "namespace": pod.Namespace, "name": pod.Name, "uid": pod.UID, "type": eventType, "reason": reason, "message": message,
		})
		return
	}
	s.print(fmt.Sprintf("%-7s  %-17s  %-20s  %s", eventType, reason, pod.Name, message), nil)
}

// say shows a line that is about no pod.
func (s *screen) say(format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	s.print(message, map[string]any{"kind": "Message", "message": message})
}

// print prints a line of text or, for programs, an object.
func (s *screen) print(text string, object map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.format == jsonLines {
		object["time"] = now
		// There is nobody to tell that the output is closed.
		_ = json.NewEncoder(s.out).Encode(object)
		return
	}
	s.erase()
	fmt.Fprintf(s.out, "%s  %s\n", now.Format(time.TimeOnly), text)
	s.draw(now)
}

// follow shows the pods whenever they change, until ctx ends.
func (s *screen) follow(ctx context.Context, agent *loop.Loop) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		s.look(agent)
		select {
		case <-ctx.Done():
			s.look(agent)
			return
		case <-s.changed:
		case <-tick.C:
		}
	}
}

// look shows how the pods of an agent do, and what else is wrong with it.
func (s *screen) look(agent *loop.Loop) {
	var pods []*v1.Pod
	for _, p := range agent.Pods() {
		pod := *p.Pod
		pod.Status = p.Status
		if p.Removed && pod.DeletionTimestamp == nil {
			pod.DeletionTimestamp = &metav1.Time{}
		}
		pods = append(pods, &pod)
	}
	s.show(pods)
	s.complain(agent.Health())
}

// complain says once what keeps the agent as a whole from its work.
func (s *screen) complain(h loop.Health) {
	var wrong []string
	if h.Runtime.Err != nil && !errors.Is(h.Runtime.Err, pleg.ErrNotListed) {
		wrong = append(wrong, "The runtime is away: "+h.Runtime.Err.Error())
	}
	for _, source := range h.Sources {
		for _, err := range slices.Concat(source.Errors, source.Warnings) {
			wrong = append(wrong, err.Error())
		}
	}
	for _, text := range wrong {
		if !slices.Contains(s.wrong, text) {
			s.say("%s", text)
		}
	}
	if len(wrong) == 0 && len(s.wrong) > 0 {
		s.say("All is well again.")
	}
	s.wrong = wrong
}

func (s *screen) show(pods []*v1.Pod) {
	if s.format != table {
		s.tell(pods)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = pods
	s.erase()
	s.draw(time.Now())
}

// tell prints what has changed in the rows of the pods, but for their age.
func (s *screen) tell(pods []*v1.Pod) {
	there := make(map[types.UID]row, len(pods))
	for _, pod := range pods {
		r := rowOf(pod, time.Time{})
		there[pod.UID] = r
		if s.told[pod.UID] == r {
			continue
		}
		s.print(fmt.Sprintf("Pod %s: %s, %s ready, %s restarts", r.Name, r.Status, r.Ready, r.Restarts), map[string]any{
			"kind": "Pod", "namespace": pod.Namespace, "name": pod.Name, "uid": pod.UID,
			"ready": r.Ready, "reason": r.Status, "restarts": r.Restarts, "status": pod.Status,
		})
	}
	for uid, r := range s.told {
		if _, ok := there[uid]; !ok {
			s.print(fmt.Sprintf("Pod %s is gone", r.Name), map[string]any{"kind": "Gone", "name": r.Name, "uid": uid})
		}
	}
	s.told = there
}

// erase takes the table off the terminal, and draw puts it there. They must be
// called with mu held.
func (s *screen) erase() {
	if s.drawn > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.drawn)
	}
	s.drawn = 0
}

func (s *screen) draw(now time.Time) {
	if s.format == table {
		s.drawn = writeTable(s.out, s.pods, now)
	}
}

package podworkers

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// The files in testdata are stories of a Set: what its caller reports, and what the caller must do then. Each block has a Set of
// its own, and its calls, which (*story).tell explains. The answers to given calls are not shown. With -rewrite the answers are
// written again.
func tell(t *testing.T, file string) {
	datadriven.RunTest(t, filepath.Join("testdata", file), func(t *testing.T, d *datadriven.TestData) string {
		s := &story{now: now, works: map[string][]Work{}}
		var told strings.Builder
		for line := range strings.Lines(d.Input) {
			line, given := strings.CutPrefix(line, "given ")
			for call := range strings.SplitSeq(line, ";") {
				answer := s.tell(t, strings.Fields(call))
				if !given {
					fmt.Fprintf(&told, "%s: %s\n", strings.TrimSpace(call), answer)
				}
			}
		}
		return told.String()
	})
}

func TestSetLife(t *testing.T)                       { tell(t, "life.txt") }
func TestW1_NothingCancelsAStop(t *testing.T)        { tell(t, "w1-stops.txt") }
func TestW2_AbandonedWorkIsDropped(t *testing.T)     { tell(t, "w2-abandoned.txt") }
func TestW3_GraceOnlyShrinks(t *testing.T)           { tell(t, "w3-grace.txt") }
func TestW4_FailureAsksForRetry(t *testing.T)        { tell(t, "w4-retries.txt") }
func TestW5_RuntimePodIsOnlyStopped(t *testing.T)    { tell(t, "w5-runtime-pods.txt") }
func TestW6_StrayContainersAreStopped(t *testing.T)  { tell(t, "w6-strays.txt") }
func TestW7_OverBeforeTheAgentStarted(t *testing.T)  { tell(t, "w7-over.txt") }
func TestW9_EveryKillIsAnsweredOnce(t *testing.T)    { tell(t, "w9-answers.txt") }
func TestW10_CreateDuringTheStopIsKept(t *testing.T) { tell(t, "w10-same-uid.txt") }
func TestW11_ForgottenWhenRemoved(t *testing.T)      { tell(t, "w11-removal.txt") }
func TestM1_StaticPodsTakeTurns(t *testing.T)        { tell(t, "m1-static.txt") }

// A story is a Set and its caller.
type story struct {
	set   Set
	now   time.Time
	works map[string][]Work // in flight, and abandoned ones before them, by the pod
}

// tell carries out one line.
//
//	create, changed, sync, kill POD [WORD...]  an update of the pod, see update
//	next POD                                   hands out work
//	done, terminal, failed POD                 the newest work of the pod ends
//	late POD                                   the oldest does, which was abandoned
//	do POD                                     next and done
//	abandon, requeue POD
//	known [POD...]                             the pods that the sources want
//	stray, remove POD [static]                 the runtime has containers of the pod, or only its remains
//	state POD
//	after DURATION
func (s *story) tell(t *testing.T, words []string) string {
	if len(words) < 2 && words[0] != "known" {
		t.Fatalf("%q names no pod", words)
	}
	words = append(words, "")
	switch uid := words[1]; words[0] {
	case "create", "changed", "sync", "kill":
		return s.update(t, words[0], uid, words[2:len(words)-1])
	case "next":
		w, ok, e := s.set.Next(s.now, types.UID(uid))
		if !ok {
			return "no work, " + effects(e)
		}
		s.works[uid] = append(s.works[uid], w)
		return s.work(w)
	case "done", "terminal", "failed", "late":
		return effects(s.set.Done(s.end(t, uid, words[0] == "late"), map[string]Outcome{"done": Succeeded, "terminal": SucceededTerminal, "late": SucceededTerminal}[words[0]]))
	case "do":
		w := s.tell(t, []string{"next", uid})
		if strings.HasPrefix(w, "no work") {
			return w
		}
		return w + " -> " + s.tell(t, []string{"done", uid})
	case "abandon":
		return effects(s.set.Abandon(s.works[uid][len(s.works[uid])-1]))
	case "requeue":
		return effects(s.set.Requeue(types.UID(uid)))
	case "known":
		return s.known(words[1 : len(words)-1])
	case "stray":
		return effects(s.set.KillRuntimePod(s.now, *runtimePodOf(uid, words[2])))
	case "remove":
		return effects(s.set.RemoveOrphan(*runtimePodOf(uid, words[2])))
	case "state":
		return s.state(uid)
	case "after":
		d, err := time.ParseDuration(uid)
		if err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(d)
		return "it is +" + s.now.Sub(now).String()
	}
	t.Fatalf("no call is named %q", words[0])
	return ""
}

// end returns the newest work of a pod, or the oldest.
func (s *story) end(t *testing.T, uid string, oldest bool) Work {
	works := s.works[uid]
	if len(works) == 0 {
		t.Fatalf("pod %s has no work", uid)
	}
	at := len(works) - 1
	if oldest {
		at = 0
	}
	s.works[uid] = append(works[:at:at], works[at+1:]...)
	return works[at]
}

func runtimePodOf(uid, name string) *RuntimePod {
	if name == "" {
		name = uid
	}
	return &RuntimePod{UID: types.UID(uid), Name: name, Namespace: "ns"}
}

// update reports an update. The words are static, v=VERSION, phase=PHASE, deleted, own=SECONDS, source=SECONDS (the grace periods of the
// spec and of a deletion), has=STATUS (the status in the runtime), runtime (that has the pod, too), only-runtime (nothing else
// has), id=ID, grace=SECONDS, evict, report=REASON.
func (s *story) update(t *testing.T, kind, uid string, words []string) string {
	u := Update{Type: map[string]UpdateType{"sync": Sync, "changed": Changed, "create": Create, "kill": Kill}[kind], Pod: pod(types.UID(uid))}
	stop := StopRequest{}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		seconds, _ := strconv.ParseInt(value, 10, 64)
		switch key {
		case "static":
			u.Pod = static(types.UID(uid))
		case "v":
			u.Pod.Labels = map[string]string{"v": value}
		case "phase":
			u.Pod.Status.Phase = v1.PodPhase(value)
		case "deleted":
			u.Pod.DeletionTimestamp = new(metav1.Now())
		case "own":
			u.Pod.Spec.TerminationGracePeriodSeconds = &seconds
		case "source":
			u.Pod.DeletionGracePeriodSeconds = &seconds
		case "has":
			u.Status = map[string]*runtime.PodStatus{
				"nothing":         {},
				"running":         {Containers: []runtime.ContainerStatus{{State: runtime.ContainerRunning}}},
				"exited":          {Containers: []runtime.ContainerStatus{{State: runtime.ContainerExited}}},
				"sandbox":         {Sandboxes: []runtime.SandboxStatus{{State: runtime.SandboxReady}}},
				"stopped-sandbox": {Sandboxes: []runtime.SandboxStatus{{State: runtime.SandboxNotReady}}},
			}[value]
		case "runtime":
			u.RuntimePod = runtimePodOf(uid, u.Pod.Name)
		case "only-runtime":
			u.RuntimePod, u.Pod = runtimePodOf(uid, u.Pod.Name), nil
		case "id":
			stop.ID, u.Stop = StopID(seconds), &stop
		case "grace":
			stop.GracePeriodSeconds, u.Stop = &seconds, &stop
		case "evict":
			stop.Evict, u.Stop = true, &stop
		case "report":
			stop.Report, u.Stop = &StopReport{Reason: value}, &stop
		default:
			t.Fatalf("an update has no %q", word)
		}
	}
	e, err := s.set.Update(s.now, u)
	if err != nil {
		return err.Error()
	}
	return effects(e)
}

func effects(e Effects) string {
	var all []string
	for _, f := range []struct {
		set  bool
		name string
	}{{e.Work, "work"}, {e.Retry, "retry"}, {e.Interrupt, "interrupt"}} {
		if f.set {
			all = append(all, f.name)
		}
	}
	for _, id := range e.Stopped {
		all = append(all, fmt.Sprintf("answer %d", id))
	}
	for _, uid := range e.Successors {
		all = append(all, fmt.Sprintf("then %s", uid))
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

func (s *story) work(w Work) string {
	text := w.Type.String()
	if w.Type == SyncPod {
		text += " after " + w.UpdateType.String()
	}
	if w.Pod != nil && w.Pod.Labels["v"] != "" {
		text += " v" + w.Pod.Labels["v"]
	}
	if w.RuntimePod != nil {
		text += fmt.Sprintf(" of %s/%s", w.RuntimePod.Namespace, w.RuntimePod.Name)
	}
	if w.Removal != NotRemoved {
		text += ", because " + w.Removal.String()
	}
	if w.GracePeriodSeconds != nil {
		text += fmt.Sprintf(" within %ds", *w.GracePeriodSeconds)
	}
	if w.Keep {
		text += ", before SyncTerminatedPod"
	}
	if !w.Deadline.IsZero() {
		text += " until +" + w.Deadline.Sub(now).String()
	}
	if w.Report != nil {
		text += " as " + w.Report.Reason
	}
	return text
}

func (s *story) known(uids []string) string {
	var desired []types.UID
	for _, uid := range uids {
		desired = append(desired, types.UID(uid))
	}
	known, orphaned := s.set.SyncKnownPods(desired)
	var text []string
	for _, k := range append(known, orphaned...) {
		line := fmt.Sprintf("%s %s", k.UID, k.Phase)
		for _, f := range []struct {
			set  bool
			name string
		}{{k.Orphan, "unwanted"}, {k.Static, "static"}, {!k.HasPod && k.Phase < Orphaned, "without a pod"}} {
			if f.set {
				line += ", " + f.name
			}
		}
		text = append(text, line+" ("+effects(k.Effects)+")")
	}
	return strings.Join(text, "; ")
}

func (s *story) state(uid string) string {
	state := s.set.State(types.UID(uid))
	text := state.String()
	for _, f := range []struct {
		set  bool
		name string
	}{
		{state.Terminated, "Terminated"}, {state.MayHaveRunningContainers, "MayHaveRunningContainers"},
		{state.ShouldBeFinished, "ShouldBeFinished"}, {state.TerminationRequested, "TerminationRequested"},
		{state.ContainersShouldBeTerminating, "ContainersShouldBeTerminating"},
		{state.RuntimeShouldBeRemoved, "RuntimeShouldBeRemoved"}, {state.ContentShouldBeRemoved, "ContentShouldBeRemoved"},
	} {
		if f.set {
			text += " " + f.name
		}
	}
	return text
}

package hours

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// podOf returns a ready pod db-0 with a container app and a restart count.
func podOf(uid types.UID, restarts int32, changes ...func(*v1.Pod)) v1.Pod {
	pod := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-0", UID: uid}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app", RestartCount: restarts}}
	for _, change := range changes {
		change(&pod)
	}
	return pod
}

func unready(p *v1.Pod)  { p.Status.Conditions[0].Status = v1.ConditionFalse }
func runOnce(p *v1.Pod)  { p.Spec.RestartPolicy = v1.RestartPolicyNever }
func noStatus(p *v1.Pod) { p.Status.ContainerStatuses = nil }

// deleted returns a change that deletes a pod. Its grace period ends after the given time from start.
func deleted(after time.Duration) func(*v1.Pod) {
	return func(p *v1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(start.Add(after))) }
}

func instance(uid types.UID, running bool) Container {
	return Container{Namespace: "default", Pod: "db-0", UID: uid, Name: "app", Running: running}
}

// runsOf returns the runs of container app of pod a.
func runsOf(started, ran int) map[Key]Runs { return map[Key]Runs{{"a", "app"}: {started, ran}} }

// seen returns a snapshot of pods and containers.
func seen(pods []v1.Pod, containers ...Container) Snapshot {
	return Snapshot{Pods: pods, Containers: containers}
}

func pods(all ...v1.Pod) []v1.Pod { return all }

// TestCheck takes a snapshot every 5 s, from start on, and wants violations of the given rules.
func TestCheck(t *testing.T) {
	up, down := instance("a", true), instance("a", false)
	ready := pods(podOf("a", 0))
	trouble := func(s Snapshot) Snapshot { s.Trouble = true; return s }
	with := func(s Snapshot, runs map[Key]Runs, faults int) Snapshot { s.Runs, s.Faults = runs, faults; return s }
	counted := func(restarts int32, started, ran, faults int, changes ...func(*v1.Pod)) Snapshot {
		return with(seen(pods(podOf("a", restarts, changes...)), up), runsOf(started, ran), faults)
	}
	for _, c := range []struct {
		name      string
		snapshots []Snapshot
		want      []Rule
	}{
		{"a pod that runs", slices.Repeat([]Snapshot{seen(ready, up)}, 30), nil},

		{"two UIDs of one name run", []Snapshot{seen(ready, up, instance("b", true))}, []Rule{OneIdentity}},
		{"two UIDs of one name run in trouble", []Snapshot{trouble(seen(nil, up, instance("b", true)))}, []Rule{OneIdentity}},
		{"the older UID has ended", []Snapshot{seen(ready, up, instance("b", false))}, nil},
		{"the same name in another namespace", []Snapshot{seen(ready, up, Container{Namespace: "other", Pod: "db-0", UID: "b", Name: "app", Running: true})}, nil},
		{"a violation is reported once", slices.Repeat([]Snapshot{seen(ready, up, instance("b", true))}, 3), []Rule{OneIdentity}},

		{"one container runs twice", []Snapshot{seen(ready, up, up)}, []Rule{OneInstance}},
		{"one container runs, and its predecessor has ended", []Snapshot{seen(ready, up, down)}, nil},

		{"a ready pod is down for 10 s", slices.Repeat([]Snapshot{seen(ready, down)}, 3), nil},
		{"a ready pod is down for 15 s", slices.Repeat([]Snapshot{seen(ready, down)}, 4), []Rule{ReadyRuns}},
		{"a ready pod has no container for 15 s", slices.Repeat([]Snapshot{seen(ready, []Container{}...), {Pods: ready, Containers: []Container{}}}, 3), []Rule{ReadyRuns}},
		{"a ready pod is down in trouble", slices.Repeat([]Snapshot{trouble(seen(ready, down))}, 9), nil},
		{"a ready pod is down, runs, and is down", slices.Concat(slices.Repeat([]Snapshot{seen(ready, down)}, 3), []Snapshot{seen(ready, up)}, slices.Repeat([]Snapshot{seen(ready, down)}, 2)), nil},
		{"trouble between does not excuse", []Snapshot{seen(ready, down), seen(ready, down), trouble(seen(ready, down)), seen(ready, down), seen(ready, down)}, []Rule{ReadyRuns}},
		{"an unready pod is down", slices.Repeat([]Snapshot{seen(pods(podOf("a", 0, unready)), down)}, 9), nil},
		{"the runtime does not answer", slices.Repeat([]Snapshot{{Pods: ready}}, 9), nil},
		{"the time before the runtime was down counts", slices.Concat(slices.Repeat([]Snapshot{seen(ready, down)}, 3), []Snapshot{trouble(Snapshot{Pods: ready})}, slices.Repeat([]Snapshot{seen(ready, down)}, 2)), []Rule{ReadyRuns}},

		{"a pod exists for a minute after its grace period", slices.Repeat([]Snapshot{seen(pods(podOf("a", 0, deleted(5*time.Second))), up)}, 14), nil},
		{"a pod exists for longer", slices.Repeat([]Snapshot{seen(pods(podOf("a", 0, deleted(5*time.Second))), up)}, 15), []Rule{TerminatingEnds}},
		{"a pod has a long grace period", slices.Repeat([]Snapshot{seen(pods(podOf("a", 0, deleted(time.Hour))), up)}, 30), nil},
		{"trouble does not count", slices.Repeat([]Snapshot{trouble(seen(pods(podOf("a", 0, deleted(0))), up))}, 30), nil},
		{"the API server does not answer", slices.Concat([]Snapshot{seen(pods(podOf("a", 0, deleted(0))), up)}, slices.Repeat([]Snapshot{seen(nil, up)}, 30)), nil},
		{"the time before the API server was down counts", slices.Concat(
			slices.Repeat([]Snapshot{seen(pods(podOf("a", 0, deleted(0))), up)}, 8), []Snapshot{trouble(seen(nil, up))}, slices.Repeat([]Snapshot{seen(pods(podOf("a", 0, deleted(0))), up)}, 6)),
			[]Rule{TerminatingEnds}},

		{"restarts are counted", []Snapshot{counted(0, 1, 1, 0), counted(1, 2, 2, 0), counted(2, 3, 3, 0)}, nil},
		{"a count decreases", []Snapshot{counted(2, 3, 3, 0), counted(1, 3, 3, 0)}, []Rule{RestartsAreTrue}},
		{"a count is late for 10 s", slices.Repeat([]Snapshot{counted(0, 2, 2, 0)}, 3), nil},
		{"a count is too low", slices.Repeat([]Snapshot{counted(0, 2, 2, 0)}, 4), []Rule{RestartsAreTrue}},
		{"a count is too low in trouble", slices.Repeat([]Snapshot{trouble(counted(0, 2, 2, 0))}, 9), nil},
		{"a start that was cut off need not count", slices.Repeat([]Snapshot{counted(0, 2, 1, 1)}, 9), nil},
		{"a count is early for 10 s", slices.Repeat([]Snapshot{counted(1, 1, 1, 0)}, 3), nil},
		{"a count is too high", slices.Repeat([]Snapshot{counted(1, 1, 1, 0)}, 4), []Rule{RestartsAreTrue}},
		{"a kill may cut off a start", slices.Concat([]Snapshot{counted(0, 1, 1, 3)}, slices.Repeat([]Snapshot{counted(1, 1, 1, 4)}, 9)), nil},
		{"a kill before the pod excuses nothing", slices.Concat([]Snapshot{with(seen(nil), nil, 3)}, slices.Repeat([]Snapshot{counted(1, 1, 1, 3)}, 9)), []Rule{RestartsAreTrue}},
		{"a container that records nothing", slices.Repeat([]Snapshot{seen(pods(podOf("a", 7)), up)}, 9), nil},
		{"no status yet", slices.Repeat([]Snapshot{counted(0, 3, 3, 0, noStatus)}, 9), nil},

		{"a container runs once", []Snapshot{counted(0, 1, 1, 0, runOnce)}, nil},
		{"a start of it was cut off", []Snapshot{counted(0, 2, 1, 1, runOnce)}, nil},
		{"it runs again", []Snapshot{counted(1, 2, 2, 0, runOnce)}, []Rule{OnlyOnce}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var history History
			var got []Rule
			for i, s := range c.snapshots {
				s.At = start.Add(time.Duration(i) * 5 * time.Second)
				var found []Violation
				history, found = Check(history, s)
				for _, v := range found {
					got = append(got, v.Rule)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("broken are %q, want %q", got, c.want)
			}
		})
	}
}

// Check returns the same result for the same history, even after other calls: it modifies no argument.
func TestCheckIsPure(t *testing.T) {
	first := seen(pods(podOf("a", 0)), instance("a", false))
	first.At, first.Runs = start, runsOf(2, 2)
	before, _ := Check(History{}, first)
	kept := History{at: before.at, faults: before.faults, pods: maps.Clone(before.pods), reported: maps.Clone(before.reported)}
	later := first
	later.At = start.Add(time.Minute)
	_, want := Check(before, later)
	if len(want) != 2 {
		t.Fatalf("broken are %v, want two rules", want)
	}
	if _, got := Check(before, later); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(before, kept) {
		t.Errorf("the second time broken are %v, want %v", got, want)
	}
	if got, want := want[0].String(), "a ready pod has a container that is down: default/db-0/app: for 1m0s"; got != want {
		t.Errorf("a violation prints as %q, want %q", got, want)
	}
	if fmt.Sprint(HalfOpen) != "half-open" {
		t.Errorf("a mode prints as %v", HalfOpen)
	}
}

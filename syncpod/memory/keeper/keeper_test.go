package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/memory/keeper"
	"github.com/podsync/podsync/syncpod/status"
)

func pod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"},
		Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, Containers: []v1.Container{{Name: "app", Image: "app"}, {Name: "log", Image: "log"}}},
	}
}

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func seen(containers ...runtime.ContainerStatus) *runtime.PodStatus {
	return &runtime.PodStatus{UID: "u1", Sandboxes: []runtime.SandboxStatus{{ID: "s0", State: runtime.SandboxReady, NetworkMode: runtime.NamespaceNode}}, Containers: containers}
}

func instance(id string, state runtime.ContainerState, attempt uint32) runtime.ContainerStatus {
	c := pod().Spec.Containers[0]
	return runtime.ContainerStatus{
		Name: "app", ID: runtime.ContainerID{Type: "cri", ID: id}, State: state, Attempt: attempt, SandboxID: "s0", SpecHash: runtime.HashContainer(&c),
		StartedAt: began, FinishedAt: began.Add(time.Duration(attempt+1) * time.Minute),
	}
}

func newKeeper(t *testing.T, dir string) *keeper.Keeper {
	t.Helper()
	k := must.Get(keeper.New(keeper.Config{Dir: dir}))(t)
	return k
}

// The next agent knows an exit code that the runtime has lost, until the pod is forgotten.
func TestWhatTheRuntimeLosesOutlivesTheAgent(t *testing.T) {
	dir := t.TempDir()
	exited := instance("c0", runtime.ContainerExited, 0)
	exited.ExitCode = 42
	newKeeper(t, dir).Pod("u1").See(t.Context(), pod(), seen(exited))
	next := newKeeper(t, dir)
	if uids, err := next.Pods(); len(uids) != 1 || err != nil {
		t.Fatalf("%v, %v; want u1", uids, err)
	}
	complete := next.Pod("u1").See(t.Context(), pod(), seen())
	if last := complete.Latest("app"); last == nil || last.ExitCode != 42 {
		t.Errorf("%+v, want the exit code", last)
	}
	must.Do(t, next.Forget("u1"))
	next.Pod("u1").Observe(t.Context(), seen())
	if complete := newKeeper(t, dir).Pod("u1").See(t.Context(), pod(), seen()); complete.Latest("app") != nil {
		t.Errorf("%+v is known of a pod that was forgotten", complete.Latest("app"))
	}
}

// A record that cannot be read is replaced.
func TestDamagedRecord(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "u1.json"), []byte("{"), 0o600))
	p := newKeeper(t, dir).Pod("u1")
	p.See(t.Context(), pod(), seen(instance("c0", runtime.ContainerExited, 3)))
	if text, err := os.ReadFile(filepath.Join(dir, "u1.json")); err != nil || !strings.Contains(string(text), "c0") {
		t.Errorf("%s, %v", text, err)
	}
}

// A container that exits again and again waits, and its status says why. One that cannot start waits for its failure.
func TestBackOffs(t *testing.T) {
	p := newKeeper(t, "").Pod("u1")
	var free []actions.StartStep
	for attempt := range uint32(2) {
		exited := instance(fmt.Sprint("c", attempt), runtime.ContainerExited, attempt)
		now := exited.FinishedAt
		complete := p.See(t.Context(), pod(), seen(exited))
		in := p.Facts(pod(), complete, nil, now)
		plan := actions.Compute(in)
		free = p.Startable(pod(), complete, plan.Start, []*lifecycle.Uncleared{{Container: actions.ContainerRef{Name: "log"}}}, now)
		if wait := attempt == 1; len(free) != map[bool]int{true: 0, false: 1}[wait] || in.StartHolds["app"].Holds() != wait {
			t.Errorf("attempt %d: %+v start, holds %+v", attempt, free, in.StartHolds)
		}
	}
	out := p.Status(status.Input{Pod: pod(), Status: seen(instance("c1", runtime.ContainerExited, 1)), Now: began})
	if waiting := out.ContainerStatuses[0].State.Waiting; waiting == nil || waiting.Reason != "CrashLoopBackOff" {
		t.Errorf("%+v", out.ContainerStatuses[0])
	}

	log, failure := &pod().Spec.Containers[1], errors.New("it cannot")
	until := p.Failed(t.Context(), log, status.Problem{Reason: "CreateContainerError"}, failure, began)
	if in := p.Facts(pod(), seen(), nil, began); !in.StartHolds["log"].Until.Equal(until) || until.IsZero() {
		t.Errorf("held until %v, want %v", in.StartHolds["log"].Until, until)
	}
	p.Succeeded(log)
	if in := p.Facts(pod(), seen(), nil, began); in.StartHolds["log"].Holds() {
		t.Errorf("%+v after a success", in.StartHolds["log"])
	}
}

// What the pod did not cause does not delay it: the end of the agent, and a runtime that is unavailable for once.
func TestExcusedFailures(t *testing.T) {
	p, c := newKeeper(t, "").Pod("u1"), &pod().Spec.Containers[0]
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	unavailable := &cri.Error{Class: cri.ErrUnavailable, Err: errors.New("away")}
	for i, until := range []time.Time{
		p.Failed(ended, c, status.Problem{}, errors.New("cut"), began), p.Failed(t.Context(), nil, status.Problem{}, unavailable, began),
	} {
		if !until.IsZero() {
			t.Errorf("failure %d delays the next try until %v", i, until)
		}
	}
	if until := p.Failed(t.Context(), nil, status.Problem{}, unavailable, began); until.IsZero() || !p.Facts(pod(), seen(), nil, began).SandboxHold.Holds() {
		t.Error("a sandbox that makes the runtime unavailable each time does not wait")
	}
}

func TestInvalidLimits(t *testing.T) {
	if _, err := keeper.New(keeper.Config{Limits: memory.Limits{Initial: time.Hour, Max: time.Second}}); err == nil || !strings.Contains(err.Error(), "Config.Limits") {
		t.Errorf("%v, want an error about Config.Limits", err)
	}
}

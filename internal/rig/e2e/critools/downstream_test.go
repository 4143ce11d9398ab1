package critools

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// A workload is a container, and what its pod is after an hour, by its restart policy.
type workload struct {
	name, image, script string
	probe               []string
	phases              map[v1.RestartPolicy]v1.PodPhase
	restarts            bool // of containers that may restart
	ready               bool
	waiting             []string // reasons
}

func phases(always, onFailure, never v1.PodPhase) map[v1.RestartPolicy]v1.PodPhase {
	return map[v1.RestartPolicy]v1.PodPhase{v1.RestartPolicyAlways: always, v1.RestartPolicyOnFailure: onFailure, v1.RestartPolicyNever: never}
}

func workloads() []workload {
	running, pending := phases(v1.PodRunning, v1.PodRunning, v1.PodRunning), phases(v1.PodPending, v1.PodPending, v1.PodPending)
	return []workload{
		{name: "completes", script: "sleep 5", phases: phases(v1.PodRunning, v1.PodSucceeded, v1.PodSucceeded)},
		{name: "fails", script: "sleep 5; exit 3", phases: phases(v1.PodRunning, v1.PodRunning, v1.PodFailed), restarts: true},
		{name: "serves", script: "trap 'exit 0' TERM; sleep infinity & wait", phases: running, ready: true},
		{name: "ignores SIGTERM", script: "trap '' TERM; sleep infinity", phases: running, ready: true},
		{name: "becomes ready", script: "sleep 10; touch /ready; sleep infinity", probe: []string{"test", "-e", "/ready"}, phases: running, ready: true},
		{name: "never becomes ready", script: "sleep infinity", probe: []string{"curl", "-f", "localhost"}, phases: running},
		{name: "has no image", image: "registry.invalid/app:1", script: "true", phases: pending, waiting: []string{"ErrImagePull", "ImagePullBackOff"}},
	}
}

// A disturbance happens a few seconds after the pod has started.
type disturbance struct {
	name string
	do   func(*critest.Runtime) error
}

func disturbances() []disturbance {
	return []disturbance{
		{"undisturbed", func(*critest.Runtime) error { return nil }},
		{"the runtime restarts", func(rt *critest.Runtime) error {
			return rt.Restart(faults.Restart{Down: 20 * time.Second, Disconnect: true})
		}},
		{"calls fail", func(rt *critest.Runtime) error {
			return rt.SetRandom(faults.Random{Seed: 1, Rate: 0.1, EventRate: 0.1})
		}},
	}
}

// Pods of each kind come to their phases, whatever happens to the runtime, and stop within their grace period.
func TestWorkloads(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, w := range workloads() {
		for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
			for _, d := range disturbances() {
				t.Run(fmt.Sprintf("%s, %s, %s", w.name, policy, d.name), func(t *testing.T) {
					root := t.TempDir()
					synctest.Test(t, func(t *testing.T) { w.test(t, root, policy, d) })
				})
			}
		}
	}
}

func (w workload) test(t *testing.T, root string, policy v1.RestartPolicy, d disturbance) {
	rt, conn := critest.Start(t, critest.Config{})
	var seen statuses
	pods := source.NewPush()
	a, err := agent.New(agent.Config{
		Client: cri.NewClient(conn), Root: root, Sources: []source.Source{pods}, NoEviction: true, NoLogRotation: true,
		Sync: syncpod.Config{RuntimeName: "critest", Sink: &seen, Node: syncpod.Node{LogsRoot: root + "/logs"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := a.Run(t.Context()); err != nil { // ends with the test
			t.Error(err)
		}
	}()
	if err := pods.Set(w.pod(policy)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	if err := d.do(rt); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Hour)
	w.check(t, seen.of("1"), policy)
	if err := rt.SetRandom(faults.Random{}); err != nil {
		t.Fatal(err)
	}
	if err := pods.Set(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	for _, p := range rt.Processes() {
		if p.Ended.IsZero() {
			t.Errorf("a process is left of the pod that was deleted a minute ago: %+v", p)
		}
	}
}

func (w workload) pod(policy v1.RestartPolicy) *v1.Pod {
	c := v1.Container{Name: "app", Image: "busybox", Command: []string{"sh", "-c", w.script}}
	if w.image != "" {
		c.Image = w.image
	}
	if w.probe != nil {
		c.ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: w.probe}}, PeriodSeconds: 5}
	}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"}, Spec: v1.PodSpec{RestartPolicy: policy, Containers: []v1.Container{c}}}
}

func (w workload) check(t *testing.T, got v1.PodStatus, policy v1.RestartPolicy) {
	t.Helper()
	if got.Phase != w.phases[policy] || len(got.ContainerStatuses) != 1 {
		t.Fatalf("the status is %+v, want the phase %s", got, w.phases[policy])
	}
	app := got.ContainerStatuses[0]
	mayRestart := policy == v1.RestartPolicyAlways && !w.ready && w.probe == nil && w.image == "" || w.restarts && policy == v1.RestartPolicyOnFailure
	if restarted := app.RestartCount >= 3; restarted != mayRestart || app.Ready && !w.ready {
		t.Errorf("%d restarts, ready %v", app.RestartCount, app.Ready)
	}
	if w.waiting != nil && (app.State.Waiting == nil || !slices.Contains(w.waiting, app.State.Waiting.Reason)) {
		t.Errorf("the state is %+v, want to wait with one of %q", app.State, w.waiting)
	}
}

// statuses are the last ones of each pod.
type statuses struct {
	mu  sync.Mutex
	all map[types.UID]v1.PodStatus
}

func (s *statuses) SetPodStatus(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[types.UID]v1.PodStatus{}
	}
	s.all[pod.UID] = status
	return nil
}

func (s *statuses) of(uid types.UID) v1.PodStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[uid]
}

package recorder_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	kubelet "github.com/podsync/podsync/internal/rig/conformance/record"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/recorder"
)

const secret = "s3cr3t-value"

// draw returns a random input. All that must not be recorded has the text secret.
func draw(r *rand.Rand, n int) actions.Input {
	pick := func(n int) bool { return r.IntN(n) == 0 }
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", n), UID: types.UID(fmt.Sprint("u", n)), Annotations: map[string]string{"a": secret}}}
	pod.Spec.RestartPolicy = []v1.RestartPolicy{"", v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}[r.IntN(4)]
	pod.Spec.HostNetwork = pick(5)
	status := &runtime.PodStatus{UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}
	for i := range r.IntN(3) {
		s := runtime.SandboxStatus{ID: fmt.Sprint("s", i), Attempt: uint32(i), State: runtime.SandboxReady, Network: &runtime.SandboxNetwork{IPs: []string{"10.0.0.1"}}}
		if pick(4) {
			s.State = runtime.SandboxNotReady
		}
		if pick(6) {
			s.Network.IPs = nil
		}
		status.Sandboxes = append(status.Sandboxes, s)
	}
	in := actions.Input{Pod: pod, Status: status, Probes: map[runtime.ContainerID]actions.ProbeResults{}, StatusComplete: pick(2), RestartAll: pick(10), StartHolds: map[string]actions.Hold{}, ResizeHolds: map[string]actions.Hold{}}
	container := func(name string) v1.Container {
		c := v1.Container{Name: name, Image: "image:1", Command: []string{secret}, Env: []v1.EnvVar{{Name: "A", Value: secret}}}
		c.Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse([]string{"1", "2"}[r.IntN(2)])}
		if pick(3) {
			c.StartupProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{secret}}}}
		}
		if pick(3) {
			c.LivenessProbe = &v1.Probe{}
		}
		if pick(3) {
			c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{secret}}}}
		}
		if pick(6) {
			c.RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestart, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{1}}}}
			never := v1.ContainerRestartPolicyNever
			c.RestartPolicy = &never
		}
		for attempt := range r.IntN(3) {
			id := runtime.ContainerID{Type: "r", ID: fmt.Sprint(name, attempt)}
			s := runtime.ContainerStatus{
				Name: name, ID: id, Attempt: uint32(attempt), SandboxID: fmt.Sprint("s", r.IntN(2)), Message: secret,
				State:    []runtime.ContainerState{runtime.ContainerCreated, runtime.ContainerRunning, runtime.ContainerRunning, runtime.ContainerExited, runtime.ContainerUnknown}[r.IntN(5)],
				ExitCode: int32(r.IntN(2)), SpecHash: runtime.HashContainer(&c), Resources: &runtime.ContainerResources{CPULimit: 1000},
			}
			if pick(2) {
				s.StartedAt = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
			}
			if pick(6) {
				s.SpecHash++
			}
			status.Containers = append(status.Containers, s)
			in.Probes[id] = actions.ProbeResults{Startup: actions.ProbeResult(r.IntN(4)), Liveness: actions.ProbeResult(r.IntN(4))}
			if pick(5) {
				in.Restarting = append(in.Restarting, id)
			}
			if pick(5) {
				in.PostStartPending = append(in.PostStartPending, id)
			}
		}
		if pick(4) {
			in.StartHolds[name] = actions.Hold{Reason: actions.CrashBackOff, Until: time.Date(2000, 1, 1, 0, 0, r.IntN(9), 0, time.UTC), Message: secret}
		}
		return c
	}
	for i := range r.IntN(3) {
		c := container(fmt.Sprint("i", i))
		if always := v1.ContainerRestartPolicyAlways; pick(2) {
			c.RestartPolicy, c.RestartPolicyRules = &always, nil
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for i := range 1 + r.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, container(fmt.Sprint("c", i)))
	}
	if pick(5) {
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon(container("e"))}}
	}
	if pick(8) {
		in.Status = nil
	}
	if pick(10) {
		in.SandboxHold = actions.Hold{Reason: actions.FailureBackOff, Message: secret}
	}
	if pick(10) {
		in.Blocked = actions.Hold{Reason: actions.PodNotAdmitted}
	}
	if pick(10) {
		in.End = actions.PodEvicted
	}
	return in
}

// record records inputs in a new directory.
func record(t *testing.T, maxBytes int64, inputs func(record func(actions.Input))) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "decisions")
	synctest.Test(t, func(t *testing.T) {
		r := must.Get(recorder.New(recorder.Config{Dir: dir, MaxBytes: maxBytes}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx, nil) }()
		n := 0
		inputs(func(in actions.Input) {
			r.Record(in, actions.Compute(in))
			if n++; n%500 == 0 {
				synctest.Wait() // the queue has 1,000
			}
		})
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return dir
}

// 10,000 recorded decisions are made again without a difference, and contain nothing that could be a secret.
func TestReplay(t *testing.T) {
	const decisions = 10_000
	random := rand.New(rand.NewPCG(1, 2))
	dir := record(t, 1<<30, func(record func(actions.Input)) {
		for n := range decisions {
			record(draw(random, n))
		}
	})
	count, changes := 0, 0
	err := recorder.Read(dir, func(d recorder.Decision) error {
		count++
		in := d.Input()
		plan := actions.Compute(in)
		if !plan.NoOp() {
			changes++
		}
		if got := plan.String(); got != d.Plan || d.Dropped > 0 {
			return fmt.Errorf("%s, after %d lost, was\n%s\nand is\n%s", d.Name, d.Dropped, d.Plan, got)
		}
		return nil
	})
	if err != nil || count != decisions || changes < decisions/2 {
		t.Errorf("%d decisions, %d with changes: %v", count, changes, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "decisions.jsonl"))
	if err != nil || strings.Contains(string(text), secret) {
		t.Errorf("the file has the value of a secret, or an error: %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, "decisions.jsonl")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// The files stay below the maximum, a repeated plan is recorded once, and a line that a crash has cut loses no other.
func TestFilesAreBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	dir := record(t, 100_000, func(record func(actions.Input)) {
		for n := range 500 {
			in := draw(random, n)
			record(in)
			record(in)
		}
	})
	var size int64
	for _, name := range []string{"decisions.jsonl", "decisions.1.jsonl"} {
		info := must.Get(os.Stat(filepath.Join(dir, name)))(t)
		size += info.Size()
	}
	seen := map[string]int{}
	last := ""
	visit := func(d recorder.Decision) error {
		seen[d.Name]++
		last = d.Name
		return nil
	}
	if err := recorder.Read(dir, visit); err != nil || size > 100_000 || last != "default/p499" || len(seen) < 20 {
		t.Errorf("%d bytes, %d pods, the last is %s: %v", size, len(seen), last, err)
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s is recorded %d times", name, n)
		}
	}
	newest := filepath.Join(dir, "decisions.jsonl")
	text := must.Get(os.ReadFile(newest))(t)
	must.Do(t, os.WriteFile(newest, text[:len(text)-20], 0o600))
	before := len(seen)
	clear(seen)
	if err := recorder.Read(dir, visit); err != nil || len(seen) != before-1 {
		t.Errorf("%d pods after a cut, want %d: %v", len(seen), before-1, err)
	}
	must.Do(t, os.WriteFile(newest, make([]byte, 5<<20), 0o600))
	if err := recorder.Read(dir, visit); !errors.Is(err, bufio.ErrTooLong) {
		t.Errorf("a line of 5 MiB: %v", err)
	}
	if err := recorder.Read(t.TempDir(), visit); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no decisions: %v", err)
	}
}

// A line can be read like a decision of a kubelet.
func TestRecordHasTheFormatOfAKubeletsDecisions(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var inputs []actions.Input
	dir := record(t, 0, func(record func(actions.Input)) {
		for n := range 100 {
			inputs = append(inputs, draw(random, n))
			record(inputs[n])
		}
	})
	n := 0
	err := kubelet.EachLine(filepath.Join(dir, "decisions.jsonl"), func(line []byte) error {
		var c kubelet.Actions
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		got, err := c.Input()
		want := inputs[n]
		n++
		if want.Status == nil {
			want.Status = &runtime.PodStatus{}
		}
		if err == nil && (got.Pod.UID != want.Pod.UID || len(got.Status.Containers) != len(want.Status.Containers) || len(got.Status.Sandboxes) != len(want.Status.Sandboxes) || got.RestartAll != want.RestartAll) {
			err = fmt.Errorf("got %+v, want %+v", got, want)
		}
		return err
	})
	if err != nil || n != len(inputs) {
		t.Errorf("%d lines: %v", n, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []recorder.Config{{}, {Dir: "decisions"}, {Dir: "/d", MaxBytes: -1}} {
		if _, err := recorder.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

package actions_test

import (
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/rig/conformance/record"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const recorded = "../internal/rig/conformance/testdata/actions.jsonl.gz"

// An op is one decision. BenchmarkCompute/vectors decides on recorded pods in random states, several times in a row for
// each, which shows the cost of the decision. BenchmarkCompute/cold decides on each once, so that every pod has to be
// loaded from memory first, which costs as much again. BenchmarkCompute/settled decides on a pod with nothing to do.
func BenchmarkCompute(b *testing.B) {
	b.Run("vectors", func(b *testing.B) { benchmarkRecorded(b, 16) })
	b.Run("cold", func(b *testing.B) { benchmarkRecorded(b, 1) })
	b.Run("settled", func(b *testing.B) {
		in := settled()
		if plan := actions.Compute(in); !plan.NoOp() {
			b.Fatalf("the pod is not settled:\n%v", plan)
		}
		b.ReportAllocs()
		for b.Loop() {
			actions.Compute(in)
		}
	})
}

func benchmarkRecorded(b *testing.B, times int) {
	inputs := recordedInputs(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		actions.Compute(inputs[i/times])
		if i++; i == times*len(inputs) {
			i = 0
		}
	}
}

func recordedInputs(tb testing.TB) []actions.Input {
	tb.Helper()
	var inputs []actions.Input
	must.Do(tb, record.EachLine(recorded, func(line []byte) error {
		var c record.Actions
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		in, err := c.Input()
		inputs = append(inputs, in)
		return err
	}))
	return inputs
}

// settled returns a pod with a finished init container, a sidecar and two regular containers, all in their desired
// state.
func settled() actions.Input {
	always := v1.ContainerRestartPolicyAlways
	pod := &v1.Pod{Spec: v1.PodSpec{
		RestartPolicy: v1.RestartPolicyAlways,
		InitContainers: []v1.Container{
			{Name: "migrate", Image: "registry.example/shop/migrate:v7"},
			{Name: "proxy", Image: "registry.example/mesh/proxy:v2", RestartPolicy: &always},
		},
		Containers: []v1.Container{
			{Name: "web", Image: "registry.example/shop/web:v7"},
			{Name: "worker", Image: "registry.example/shop/worker:v7"},
		},
	}}
	pod.Name, pod.Namespace, pod.UID = "shop-0", "default", types.UID("4f1c")
	status := &runtime.PodStatus{Sandboxes: []runtime.SandboxStatus{
		{ID: "s0", State: runtime.SandboxReady, Network: &runtime.SandboxNetwork{IPs: []string{"10.0.0.7"}}},
	}}
	probes := map[runtime.ContainerID]actions.ProbeResults{}
	add := func(c *v1.Container, state runtime.ContainerState) {
		id := runtime.ContainerID{Type: "containerd", ID: "id-" + c.Name}
		status.Containers = append(status.Containers, runtime.ContainerStatus{
			ID: id, Name: c.Name, SandboxID: "s0", State: state, SpecHash: runtime.HashContainer(c),
		})
		probes[id] = actions.ProbeResults{Liveness: actions.ProbeSuccess}
	}
	add(&pod.Spec.InitContainers[0], runtime.ContainerExited)
	add(&pod.Spec.InitContainers[1], runtime.ContainerRunning)
	add(&pod.Spec.Containers[0], runtime.ContainerRunning)
	add(&pod.Spec.Containers[1], runtime.ContainerRunning)
	return actions.Input{Pod: pod, Status: status, Probes: probes}
}

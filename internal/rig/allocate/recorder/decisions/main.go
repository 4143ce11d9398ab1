// Command decisions measures computePodActions of a kubelet on recorded pods. The script beside it builds and runs it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	proberesults "k8s.io/kubernetes/pkg/kubelet/prober/results"
)

// record is a line of the recorded decisions.
type record struct {
	Pod       v1.Pod
	Sandboxes []struct {
		ID, State, Network string
		Attempt            uint32
		IP                 *string
	}
	Containers []struct {
		ID, Name, State, Reason string
		ExitCode, RestartCount  int
		SpecChanged             bool
	}
	Liveness, Startup    map[string]string
	RestartAllContainers bool
	Want                 struct {
		KillPod           bool
		ContainersToKill  []any
		ContainersToStart []int
	}
}

type input struct {
	pod        *v1.Pod
	status     *kubecontainer.PodStatus
	restartAll bool
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "decisions:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	if err := utilfeature.DefaultMutableFeatureGate.Set("ContainerRestartRules=true,RestartAllContainersOnContainerExits=true"); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	decider, ctx := kuberuntime.NewDecider(), context.Background()
	var inputs []input
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		r.Pod.UID = types.UID(fmt.Sprint("u-", len(inputs))) // probe results are kept by UID
		in := input{&r.Pod, r.status(), r.RestartAllContainers}
		decider.Add(in.pod, r.results(r.Liveness), r.results(r.Startup))
		kill, kills, starts := decider.Compute(ctx, in.pod, in.status, in.restartAll)
		if kill != r.Want.KillPod || kills != len(r.Want.ContainersToKill) || starts != len(r.Want.ContainersToStart) {
			return fmt.Errorf("record %d: the kubelet decides differently from what was recorded", len(inputs)+1)
		}
		inputs = append(inputs, in)
	}
	if lines.Err() != nil || len(inputs) == 0 {
		return fmt.Errorf("%d records of %s: %w", len(inputs), path, lines.Err())
	}
	for _, b := range []struct {
		name  string
		times int // that one pod is decided on before the next
	}{{"vectors", 16}, {"cold", 1}} {
		result := testing.Benchmark(func(t *testing.B) {
			t.ReportAllocs()
			for i := range t.N {
				in := inputs[i/b.times%len(inputs)]
				decider.Compute(ctx, in.pod, in.status, in.restartAll)
			}
		})
		fmt.Printf("kubelet/%s %s %s\n", b.name, result, result.MemString())
	}
	return nil
}

func (r *record) status() *kubecontainer.PodStatus {
	status := &kubecontainer.PodStatus{ID: r.Pod.UID, Name: r.Pod.Name, Namespace: r.Pod.Namespace}
	for _, s := range r.Sandboxes {
		options := &runtimeapi.NamespaceOption{}
		sandbox := &runtimeapi.PodSandboxStatus{
			Id: s.ID, Metadata: &runtimeapi.PodSandboxMetadata{Name: r.Pod.Name, Namespace: r.Pod.Namespace, Attempt: s.Attempt},
			Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: options}},
		}
		if s.State != "ready" {
			sandbox.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		}
		if s.Network == "NODE" {
			options.Network = runtimeapi.NamespaceMode_NODE
		}
		if s.IP != nil {
			sandbox.Network = &runtimeapi.PodSandboxNetworkStatus{Ip: *s.IP}
		}
		status.SandboxStatuses = append(status.SandboxStatuses, sandbox)
	}
	hashes := r.hashes()
	for _, c := range r.Containers {
		container := &kubecontainer.Status{
			ID: r.id(c.ID), Name: c.Name, State: kubecontainer.State(c.State), ExitCode: c.ExitCode, Reason: c.Reason,
			RestartCount: c.RestartCount, Hash: hashes[c.Name],
		}
		if c.SpecChanged {
			container.Hash++
		}
		status.ContainerStatuses = append(status.ContainerStatuses, container)
	}
	status.ActiveContainerStatuses = status.ContainerStatuses
	return status
}

func (r *record) hashes() map[string]uint64 {
	hashes := map[string]uint64{}
	for _, containers := range [][]v1.Container{r.Pod.Spec.InitContainers, r.Pod.Spec.Containers} {
		for i := range containers {
			hashes[containers[i].Name] = kubecontainer.HashContainer(&containers[i])
		}
	}
	for i := range r.Pod.Spec.EphemeralContainers {
		c := v1.Container(r.Pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		hashes[c.Name] = kubecontainer.HashContainer(&c)
	}
	return hashes
}

func (r *record) results(words map[string]string) map[kubecontainer.ContainerID]proberesults.Result {
	meanings := map[string]proberesults.Result{"success": proberesults.Success, "failure": proberesults.Failure, "unknown": proberesults.Unknown}
	results := map[kubecontainer.ContainerID]proberesults.Result{}
	for id, word := range words {
		results[r.id(id)] = meanings[word]
	}
	return results
}

// id returns a container ID that no other record has.
func (r *record) id(id string) kubecontainer.ContainerID {
	return kubecontainer.ContainerID{Type: "containerd", ID: id + "-" + string(r.Pod.UID)}
}

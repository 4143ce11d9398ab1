package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/device"
	"github.com/podsync/podsync/syncpod/shutdown"
	"github.com/podsync/podsync/syncpod/source"
)

// nulls gives each container /dev/null under another name, with a library and a variable.
type nulls struct{ library string }

func (n nulls) Allocate(context.Context, *v1.Pod, *v1.Container) (device.Allocation, error) {
	return device.Allocation{
		Devices: []device.Device{{HostPath: "/dev/null", ContainerPath: "/dev/card0", Permissions: "rw"}},
		Mounts:  []device.Mount{{HostPath: n.library, ContainerPath: "/usr/lib/card", ReadOnly: true}},
		Env:     map[string]string{"CARD": "card0"}, Annotations: map[string]string{"vendor.test/card": "card0"},
	}, nil
}

func (nulls) Release(context.Context, types.UID) error { return nil }

// A container has its allocated devices: the device node, which works and is the right one, the mount, which is read-only,
// and the variable.
func TestDevicesInContainers(t *testing.T) {
	t.Parallel()
	onEdges(t, func(t *testing.T, e *edge) {
		library := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(library, "version"), []byte("card driver 7"), 0o644))
		r := newRelief(t, e, func(c *nodeagent.Config) {
			keeper := must.Get(device.New(device.Config{State: filepath.Join(c.Root, "devices"), Allocator: nulls{library}}))(t)
			c.Sync.Extensions.Devices = keeper
		})
		pod := r.pod("card", `test -c /dev/card0 && echo gone > /dev/card0 && test -z "$(cat /dev/card0)" && ! touch /usr/lib/card/new &&
			echo "$CARD, $(cat /usr/lib/card/version)" > /dev/termination-log`)
		r.run(pod)
		r.until("end", func() bool {
			return r.status(pod.UID).Phase == v1.PodSucceeded || r.status(pod.UID).Phase == v1.PodFailed
		})
		if ended := r.status(pod.UID).ContainerStatuses[0].State.Terminated; ended == nil || ended.ExitCode != 0 || strings.TrimSpace(ended.Message) != "card0, card driver 7" {
			t.Errorf("the container ended as %+v", ended)
		}
		found := r.containers(e, pod)
		if len(found) != 1 || found[0].GetAnnotations()["vendor.test/card"] != "card0" {
			t.Errorf("the runtime has %v, want one container with an annotation", found)
		}
	})
}

// Before the node is switched off, pods stop in groups: the critical pod runs until the others have stopped, each gets its
// signal and its time, and each status has the reason.
func TestShutdownByPriority(t *testing.T) {
	t.Parallel()
	onEdges(t, func(t *testing.T, e *edge) {
		r := newRelief(t, e, nil)
		dir := t.TempDir()
		pod := func(name string, priority int32) *v1.Pod {
			p := r.pod(name, fmt.Sprintf(`trap 'sleep 1; date +%%s%%N > /ends/%s; exit 0' TERM; while :; do sleep 0.1; done`, name))
			p.Spec.TerminationGracePeriodSeconds, p.Spec.Priority = new(int64(20)), &priority
			p.Spec.Volumes = []v1.Volume{{Name: "ends", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "ends", MountPath: "/ends"}}
			return p
		}
		low, high, critical := pod("low", 0), pod("high", 1_000_000), pod("critical", 2_000_001_000)
		r.run(low, high, critical)
		began := time.Now()
		if err := r.Shutdown(t.Context(), shutdown.Policy{ByPriority: []shutdown.Period{{Priority: 0, GracePeriod: 20 * time.Second}, {Priority: 2_000_000_000, GracePeriod: 20 * time.Second}}}); err != nil {
			t.Error(err)
		}
		t.Logf("the shutdown took %v", time.Since(began))
		ends := map[string]string{}
		for _, p := range []*v1.Pod{low, high, critical} {
			text, err := os.ReadFile(filepath.Join(dir, p.Name))
			if err != nil {
				t.Error(err)
			}
			ends[p.Name] = string(text) // as long as each other
			if s := r.status(p.UID); s.Phase != v1.PodFailed || s.Reason != "Terminated" || s.Message != "Pod was terminated in response to imminent node shutdown." {
				t.Errorf("%s is %s, %s: %s", p.Name, s.Phase, s.Reason, s.Message)
			}
		}
		if ends["critical"] < ends["low"] || ends["critical"] < ends["high"] {
			t.Errorf("the pods ended at %v, the critical one before another", ends)
		}
	})
}

// shelf has one ConfigMap while the server is available.
type shelf struct {
	mu   sync.Mutex
	away bool
}

func (s *shelf) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, fmt.Errorf("connection refused")
	}
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"greeting": "hello"}}, nil
}

// A node that was switched off and starts while its server is unavailable runs its previous pods, with the ConfigMap. When
// the server is available again, it stops the pods that the server does not want.
func TestE5_StartWithoutTheServer(t *testing.T) {
	t.Parallel()
	onEdges(t, func(t *testing.T, e *edge) {
		dir, server := t.TempDir(), &shelf{}
		start := func() *relief {
			return newRelief(t, e, func(c *nodeagent.Config) {
				remembered := must.Get(source.NewCheckpoint(source.CheckpointConfig{
					Source: c.Sources[0], Path: filepath.Join(dir, "remembered.json"), ConfigMaps: server, Patience: time.Second, WriteInterval: 100 * time.Millisecond,
				}))(t)
				c.Root, c.Sources[0], c.Sync.Objects.ConfigMaps = filepath.Join(dir, "root"), remembered, remembered
				c.Sync.Limits.InitialBackOff = time.Second
			})
		}
		first := start()
		pod := first.pod("web", `echo "$GREETING" > /dev/termination-log; sleep 1000`)
		pod.Spec.RestartPolicy = v1.RestartPolicyAlways
		pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "GREETING", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{
			LocalObjectReference: v1.LocalObjectReference{Name: "c"}, Key: "greeting",
		}}}}
		first.run(pod)
		first.detach()
		for _, s := range first.sandboxes(e, pod) { // as on a node that was switched off
			must.Get(e.client.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: s.GetId()}))(t)
		}
		server.mu.Lock()
		server.away = true
		server.mu.Unlock()

		second := start()
		second.until("it runs again", func() bool {
			s := second.status(pod.UID)
			return s.Phase == v1.PodRunning && len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].State.Running != nil && s.ContainerStatuses[0].RestartCount == 1
		})
		if err := second.pods.Set(); err != nil { // the server is back
			t.Fatal(err)
		}
		second.until("it stops", func() bool { return len(second.Pods()) == 0 })
	})
}

func (r *relief) labels(pod *v1.Pod) map[string]string {
	return map[string]string{runtime.LabelPodUID: string(pod.UID)}
}

func (r *relief) containers(e *edge, pod *v1.Pod) []*runtimeapi.Container {
	r.t.Helper()
	list := must.Get(e.client.ListContainers(r.t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: r.labels(pod)}}))(r.t)
	return list.GetContainers()
}

func (r *relief) sandboxes(e *edge, pod *v1.Pod) []*runtimeapi.PodSandbox {
	r.t.Helper()
	list := must.Get(e.client.ListPodSandbox(r.t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: r.labels(pod)}}))(r.t)
	return list.GetItems()
}

//go:build linux

package reports

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/source"
)

// A node runs an agent whose pods come from apply, in virtual time.
type node struct {
	*critest.Node
	*testing.T
	pods    *source.Push
	objects *objects
	change  func(*agent.Config) // of each agent that starts

	mu      sync.Mutex
	history map[types.UID][]v1.PodStatus
	events  []event
	agent   *agent.Agent
}

type event struct{ object, kind, reason, message string }

// on runs a story on a node whose agent runs.
func on(t *testing.T, c critest.Config, change func(*agent.Config), story func(n *node)) {
	t.Helper()
	c.ServeUnknown = true // the command "server" of the stories
	synctest.Test(t, func(t *testing.T) {
		n := &node{Node: critest.NewNode(t, c), T: t, pods: source.NewAdmittedPush(), objects: newObjects(), change: change, history: map[types.UID][]v1.PodStatus{}}
		if err := n.pods.Set(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Stop(); unmount(t, n.Root) })
		n.start()
		synctest.Wait()
		story(n)
	})
}

// start starts the next agent.
func (n *node) start() {
	n.Start(func(ctx context.Context, run *critest.AgentRun) error {
		c := agent.Config{
			Client: cri.NewClient(run.Conn), Root: n.Root, Sources: []source.Source{n.pods}, NoEviction: true, NoOOMEvents: true, NoImageGC: true,
			Sync: syncpod.Config{
				RuntimeName: "critest", Events: recorder{n},
				Node:    syncpod.Node{LogsRoot: n.Logs, DialPod: n.DialPod, HostIPs: func() []string { return []string{"192.0.2.1"} }},
				Objects: syncpod.Objects{Sources: env.Sources{ConfigMaps: n.objects, Secrets: n.objects}},
				Sink: syncpod.StatusSinkFunc(func(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error {
					if err := run.Report(ctx, pod, status); err != nil {
						return err
					}
					n.mu.Lock()
					defer n.mu.Unlock()
					n.history[pod.UID] = append(n.history[pod.UID], status)
					return nil
				}),
			},
		}
		if n.change != nil {
			n.change(&c)
		}
		a, err := agent.New(c)
		if err != nil {
			return err
		}
		n.mu.Lock()
		n.agent = a
		n.mu.Unlock()
		return a.Run(ctx)
	})
}

// restart kills the agent, and starts the next one after a pause.
func (n *node) restart(pause time.Duration) {
	n.Kill()
	time.Sleep(pause)
	n.start()
}

// parse returns a pod of a manifest, with the defaults that keep manifests short.
func parse(t testing.TB, manifest string) *v1.Pod {
	t.Helper()
	var pod v1.Pod
	if err := yaml.UnmarshalStrict([]byte(manifest), &pod); err != nil {
		t.Fatal(err)
	}
	if pod.Namespace == "" {
		pod.Namespace = "default"
	}
	if pod.UID == "" {
		pod.UID = types.UID(pod.Name)
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Image == "" {
				list[i].Image = "registry.test/app:1"
			}
		}
	}
	return &pod
}

// apply creates or changes a pod.
func (n *node) apply(manifest string) *v1.Pod {
	n.Helper()
	pod := parse(n.T, manifest)
	n.update(pod)
	return pod
}

func (n *node) update(pod *v1.Pod) {
	n.Helper()
	if err := n.pods.Update(pod); err != nil {
		n.Fatal(err)
	}
}

// delete deletes a pod as an API server does.
func (n *node) delete(pod *v1.Pod, grace int64) {
	n.Helper()
	pod = pod.DeepCopy()
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(time.Duration(grace) * time.Second)}, &grace
	n.update(pod)
}

func (n *node) status(pod string) v1.PodStatus { return n.Status(types.UID(pod)) }

// of returns the status of a container of a pod, whatever its kind.
func (n *node) of(pod, container string) v1.ContainerStatus {
	n.Helper()
	s := n.status(pod)
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses) {
		if c.Name == container {
			return c
		}
	}
	return v1.ContainerStatus{}
}

// last returns how the instance of a container before the present one ended, the zero value if it is not reported.
func (n *node) last(pod, container string) v1.ContainerStateTerminated {
	n.Helper()
	if t := n.of(pod, container).LastTerminationState.Terminated; t != nil {
		return *t
	}
	n.Errorf("no last state is reported of %s: %+v", container, n.of(pod, container))
	return v1.ContainerStateTerminated{}
}

// ended returns how a container ended.
func (n *node) ended(pod, container string) v1.ContainerStateTerminated {
	n.Helper()
	if t := n.of(pod, container).State.Terminated; t != nil {
		return *t
	}
	n.Errorf("%s has not ended: %+v", container, n.of(pod, container))
	return v1.ContainerStateTerminated{}
}

// waits returns why a container waits.
func (n *node) waits(pod, container string) v1.ContainerStateWaiting {
	n.Helper()
	if w := n.of(pod, container).State.Waiting; w != nil {
		return *w
	}
	n.Errorf("%s does not wait: %+v", container, n.of(pod, container))
	return v1.ContainerStateWaiting{}
}

// past returns all statuses of a pod.
func (n *node) past(pod string) []v1.PodStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.history[types.UID(pod)])
}

func (n *node) condition(pod string, kind v1.PodConditionType) v1.PodCondition {
	return condition(n.status(pod), kind)
}

func condition(s v1.PodStatus, kind v1.PodConditionType) v1.PodCondition {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1.PodCondition{}
}

// told returns the messages of events with a reason.
func (n *node) told(reason string) (messages []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.events {
		if e.reason == reason {
			messages = append(messages, e.message)
		}
	}
	return messages
}

// runs returns the processes of a container that really ran.
func (n *node) runs(container string) (runs []critest.Process) {
	for _, p := range n.Processes() {
		if p.Container == container {
			runs = append(runs, p)
		}
	}
	return runs
}

func (n *node) want(got, want any, about string) {
	n.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		n.Errorf("%s: got %v, want %v", about, got, want)
	}
}

func (n *node) wantIn(text, part, about string) {
	n.Helper()
	if !strings.Contains(text, part) {
		n.Errorf("%s: %q is not in %q", about, part, text)
	}
}

// recorder records the events of a node's agents.
type recorder struct{ n *node }

func (r recorder) Eventf(object k8sruntime.Object, kind, reason, format string, args ...any) {
	r.n.mu.Lock()
	defer r.n.mu.Unlock()
	name := ""
	if ref, ok := object.(*v1.ObjectReference); ok {
		name = ref.Name + " " + ref.FieldPath
	}
	r.n.events = append(r.n.events, event{name, kind, reason, fmt.Sprintf(format, args...)})
}

func (r recorder) AnnotatedEventf(object k8sruntime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	r.Eventf(object, kind, reason, format, args...)
}

// objects are the ConfigMaps and Secrets of a test, by name. All calls fail with down if it is set.
type objects struct {
	mu        sync.Mutex
	maps      map[string]map[string]string
	immutable map[string]bool
	down      error
}

func newObjects() *objects { return &objects{maps: map[string]map[string]string{}} }

func (o *objects) set(name string, data map[string]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.maps[name] = data
}

func (o *objects) setImmutable(name string, data map[string]string) {
	o.set(name, data)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.immutable = map[string]bool{name: true}
}

func (o *objects) get(name string) (map[string]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down != nil {
		return nil, o.down
	}
	data, ok := o.maps[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, env.ErrNotFound)
	}
	return data, nil
}

func (o *objects) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	data, err := o.get(name)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data, Immutable: new(o.immutable[name])}, nil
}

func (o *objects) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	data, err := o.get(name)
	if err != nil {
		return nil, err
	}
	s := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s, nil
}

// exec runs a command in the running instance of a container.
func exec(n *node, container string, command ...string) (stdout string, code int32) {
	n.Helper()
	runs := n.runs(container)
	client := runtimeapi.NewRuntimeServiceClient(n.Direct())
	resp, err := client.ExecSync(n.Context(), &runtimeapi.ExecSyncRequest{ContainerId: runs[len(runs)-1].ContainerID, Cmd: command, Timeout: 60})
	if err != nil {
		n.Fatal(err)
	}
	return string(resp.GetStdout()), resp.GetExitCode()
}

// unmount unmounts what agents have mounted below a directory, which a test leaves when its pods still run.
func unmount(t testing.TB, root string) {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(table), "\n")
	slices.Reverse(lines)
	for _, line := range lines {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], root+"/") {
			if err := syscall.Unmount(fields[4], syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
	}
}

// logSize returns the size of all logs of a container.
func logSize(n *node, container string) (size int64) {
	n.Helper()
	paths, _ := filepath.Glob(filepath.Join(n.Logs, "*", container, "*"))
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil {
			size += info.Size()
		}
	}
	return size
}

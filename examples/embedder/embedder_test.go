package embedder

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
)

// A node is a runtime in memory with one pod, which the embedder has started with the configurations of podsync.
type node struct {
	client runtimeapi.RuntimeServiceClient
	reader *reader.Reader
	pod    *v1.Pod
	config map[string]*runtimeapi.ContainerConfig
}

func newNode(t *testing.T) *node {
	t.Helper()
	_, conn := critest.Start(t, critest.Config{Images: []critest.Image{{Name: "app"}}})
	n := &node{client: runtimeapi.NewRuntimeServiceClient(conn), config: map[string]*runtimeapi.ContainerConfig{}, pod: &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "8c1f"},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(5)), DNSPolicy: v1.DNSClusterFirst, SecurityContext: &v1.PodSecurityContext{},
			Containers: []v1.Container{
				{Name: "app", Image: "app", Env: []v1.EnvVar{{Name: "GREETING", Value: "$(HELLO) from $(NAME)"}}, EnvFrom: []v1.EnvFromSource{
					{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}},
				}},
				{Name: "log", Image: "app"},
			},
		},
	}}
	var err error
	if n.reader, err = reader.New(reader.Config{Runtime: n.client, RuntimeName: "containerd"}); err != nil {
		t.Fatal(err)
	}
	return n
}

var settings = env.Sources{ConfigMaps: env.ConfigMapsFunc(func(context.Context, string, string) (*v1.ConfigMap, error) {
	return &v1.ConfigMap{Data: map[string]string{"HELLO": "hi", "NAME": "settings"}}, nil
})}

// start starts the pod.
func (n *node) start(t *testing.T) *runtime.PodStatus {
	t.Helper()
	config, err := SandboxConfig(n.pod, sandbox.NodeDNS{ClusterServers: []string{"10.96.0.10"}, ClusterDomain: "cluster.local"})
	if err != nil {
		t.Fatal(err)
	}
	if servers := config.GetDnsConfig().GetServers(); !slices.Equal(servers, []string{"10.96.0.10"}) || config.GetHostname() != "web" {
		t.Errorf("DNS %q, hostname %q", servers, config.GetHostname())
	}
	box, err := n.client.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"app", "log"} {
		if n.config[name], err = ContainerConfig(t.Context(), n.pod, name, "app", container.Node{MemoryBytes: 1 << 30}, settings); err != nil {
			t.Fatal(err)
		}
		created, err := n.client.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: box.GetPodSandboxId(), SandboxConfig: config, Config: n.config[name]})
		if err == nil {
			_, err = n.client.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: created.GetContainerId()})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return n.observe(t)
}

func (n *node) observe(t *testing.T) *runtime.PodStatus {
	t.Helper()
	observed, err := n.reader.PodStatus(t.Context(), n.pod.UID, nil)
	if err != nil {
		t.Fatal(err)
	}
	return observed
}

// Tasks 2 and 3: the configurations of a sandbox and of a container with its environment, with which a runtime runs the pod.
func TestConfigure(t *testing.T) {
	n := newNode(t)
	observed := n.start(t)
	if !observed.Live() || observed.Latest("app").State != runtime.ContainerRunning {
		t.Fatalf("%+v", observed)
	}
	values := map[string]string{}
	for _, v := range n.config["app"].GetEnvs() {
		values[v.GetKey()] = string(v.GetValue())
	}
	if values["GREETING"] != "hi from settings" || values["HELLO"] != "hi" {
		t.Errorf("environment %q", values)
	}
}

// Task 4: an image of one's own image service, with the credentials of a secret, and the back-off of a kubelet.
func TestEnsureAnImage(t *testing.T) {
	store := &Store{Present: map[string]string{}, Registry: map[string]string{"r.io/app:v1": "hunter2"}}
	images, err := image.New(image.Config{Settings: image.Settings{Runtime: store}})
	if err != nil {
		t.Fatal(err)
	}
	pod, c := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "8c1f"}}, &v1.Container{Image: "r.io/app:v1"}
	for _, want := range []error{image.ErrImagePull, image.ErrImagePullBackOff} {
		if _, _, err := Ensure(t.Context(), images, pod, c, nil); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	login, err := json.Marshal(map[string]any{"auths": map[string]any{"r.io": map[string]string{"username": "bob", "password": "hunter2"}}})
	if err != nil {
		t.Fatal(err)
	}
	secrets := []v1.Secret{{Data: map[string][]byte{v1.DockerConfigJsonKey: login}}}
	for range 2 {
		id, release, err := Ensure(t.Context(), images, pod, c, secrets)
		if err != nil || id != "id of r.io/app:v1" || store.Pulls != 2 {
			t.Fatalf("%q, %v, after %d pulls", id, err, store.Pulls)
		}
		release()
	}
}

// Task 5: the status of the API, in a database of one's own.
func TestReport(t *testing.T) {
	n, database := newNode(t), map[types.UID]*v1.PodStatus{}
	if err := Report(t.Context(), n.reader, n.pod, database); err != nil || database["8c1f"].Phase != v1.PodPending {
		t.Errorf("%+v, %v", database["8c1f"], err)
	}
	n.start(t)
	if err := Report(t.Context(), n.reader, n.pod, database); err != nil || database["8c1f"].Phase != v1.PodRunning || len(database["8c1f"].ContainerStatuses) != 2 {
		t.Errorf("%+v, %v", database["8c1f"], err)
	}
}

// Task 6: one container is stopped and the rest of the pod keeps running; then the pod is stopped.
func TestKill(t *testing.T) {
	n := newNode(t)
	if err := KillContainer(t.Context(), n.client, n.pod, n.start(t), "app"); err != nil {
		t.Fatal(err)
	}
	observed := n.observe(t)
	if observed.Latest("app").State != runtime.ContainerExited || observed.Latest("log").State != runtime.ContainerRunning || observed.ActiveSandbox() == nil {
		t.Errorf("after the stop of one container: %+v", observed)
	}
	if err := KillPod(t.Context(), n.client, n.pod, observed); err != nil {
		t.Fatal(err)
	}
	if observed = n.observe(t); observed.Live() {
		t.Errorf("after the stop of the pod: %+v", observed)
	}
}

// Task 8: pod changes are reported, and a status that is newer than a time is read.
func TestRelist(t *testing.T) {
	n, changes := newNode(t), make(chan types.UID, 100)
	watcher, err := Relist(n.reader, func(uid types.UID, _ *runtime.PodStatus) { changes <- uid })
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- watcher.Run(ctx) }()
	before := n.start(t)
	if uid := <-changes; uid != n.pod.UID {
		t.Errorf("pod %s has changed", uid)
	}
	since := time.Now()
	observed, err := watcher.GetNewerThan(ctx, n.pod.UID, since)
	if err != nil || observed.ObservedAt.Before(since) || len(observed.Containers) != len(before.Containers) {
		t.Errorf("%+v, %v", observed, err)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Each task takes at most a third of the lines that it took without the parts: lines of code, without imports and comments.
func TestLines(t *testing.T) {
	for file, most := range map[string]int{"decide.go": 141 / 3, "start.go": 50 / 3, "configure.go": 121 / 3, "image.go": 151 / 3, "status.go": 49 / 3, "kill.go": 63 / 3, "relist.go": 108 / 3} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, code, ok := strings.Cut(string(text), "\n)\n")
		if !ok {
			t.Fatalf("%s has no imports", file)
		}
		lines := 0
		for line := range strings.Lines(code) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
		if t.Logf("%s: %d lines of %d", file, lines, most); lines > most {
			t.Errorf("%s has %d lines, want %d at most", file, lines, most)
		}
	}
}

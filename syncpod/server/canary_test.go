package server_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/credentialprovider"
	"github.com/podsync/podsync/syncpod/device"
	"github.com/podsync/podsync/syncpod/resize"
	"github.com/podsync/podsync/syncpod/server"
	"github.com/podsync/podsync/syncpod/source"
	"github.com/podsync/podsync/syncpod/timeline"
)

// canary is a Secret's value. A program that fails with it repeats it in several forms.
const canary = "c4n4ry\"&\x1b\n5ecret"

// forms are the parts that must appear nowhere.
var forms = []string{"c4n4ry", "5ecret"}

// A chatty runtime repeats everything that it was sent in the errors of some of its calls, as runc does with commands, and
// a registry with credentials.
type chatty struct {
	grpc.ClientConnInterface
	mu    sync.Mutex
	fails map[string]bool
	hits  map[string]int
}

func (c *chatty) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	name := method[strings.LastIndex(method, "/")+1:]
	c.mu.Lock()
	fails := c.fails[name]
	if fails {
		c.hits[name]++
	}
	c.mu.Unlock()
	if !fails {
		return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	}
	return status.Errorf(codes.Unknown, "runc: exec %q: stat /bin/app-%s: no such file (PW=%s)", []string{"/bin/app-" + canary}, canary, canary)
}

func (c *chatty) set(calls ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails, c.hits = map[string]bool{}, map[string]int{}
	for _, call := range calls {
		c.fails[call] = true
	}
}

func (c *chatty) hit(call string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hits[call] > 0
}

// canarySecrets are the Secrets of the pod: variables, and credentials of a registry.
type canarySecrets struct{}

func (canarySecrets) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	s := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"password": []byte(canary)}}
	if name == "registry" {
		auth := base64.StdEncoding.EncodeToString([]byte("user:" + canary))
		config, err := json.Marshal(map[string]any{"auths": map[string]any{"registry.test": map[string]string{"auth": auth}}})
		if err != nil {
			return nil, err
		}
		s.Type, s.Data = v1.SecretTypeDockerConfigJson, map[string][]byte{v1.DockerConfigJsonKey: config}
	}
	return s, nil
}

func (s canarySecrets) PullSecrets(ctx context.Context, pod *v1.Pod) ([]v1.Secret, error) {
	secret, err := s.Secret(ctx, pod.Namespace, "registry")
	return []v1.Secret{*secret}, err
}

// chattyDevices is an allocator whose plugin repeats the variables of the container in its error.
type chattyDevices struct{}

func (chattyDevices) Allocate(context.Context, *v1.Pod, *v1.Container) (device.Allocation, error) {
	return device.Allocation{}, status.Errorf(codes.Unknown, "vendor-hook: app: PW=%s", canary)
}

func (chattyDevices) Release(context.Context, types.UID) error { return nil }

func canaryDevices(t *testing.T, dir string) syncpod.Devices {
	t.Helper()
	return must.Get(device.New(device.Config{State: filepath.Join(dir, "devices"), Allocator: chattyDevices{}}))(t)
}

// canaryPlugin is a plugin for credentials, whose script can read files with the canary and with a response that has it.
func canaryPlugin(t *testing.T, script func(dir string) string) syncpod.PullSecrets {
	t.Helper()
	if goruntime.GOOS == "windows" {
		t.Skip("the plugin is a shell script")
	}
	dir := t.TempDir()
	login := map[string]any{"registry.test": map[string]string{"username": "user", "password": canary}}
	response := must.Get(json.Marshal(map[string]any{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "cacheKeyType": "Registry", "auth": login}))(t)
	for name, text := range map[string]string{
		"canary": canary, "response": string(response), "plugin": "#!/bin/sh\n" + script(dir) + "\n",
		"config": "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n" +
			"- {name: plugin, matchImages: [registry.test], defaultCacheDuration: 1h, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	return must.Get(credentialprovider.New(credentialprovider.Config{File: filepath.Join(dir, "config"), BinDir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}}))(t)
}

// A Secret's value goes through each path that fails, and is found nowhere afterwards.
func TestCanaryIsFoundNowhere(t *testing.T) {
	exec := &v1.ExecAction{Command: []string{"check"}}
	for name, tt := range map[string]struct {
		fails  []string
		change func(*v1.Pod)
		plugin func(dir string) string                            // the script of a plugin for credentials
		device bool                                               // a device plugin fails
		after  func(t *testing.T, pod *v1.Pod, pods *source.Push) // once the pod has run for a while
	}{
		"create": {fails: []string{"CreateContainer"}},
		"start":  {fails: []string{"StartContainer"}},
		"pull":   {fails: []string{"PullImage"}},
		"device": {device: true},
		"credentials": {plugin: func(dir string) string {
			return "cat " + dir + "/canary >&2; cat " + dir + "/canary; exit 3"
		}},
		"credentials that are malformed": {plugin: func(dir string) string { return "cat " + dir + "/canary" }},
		"credentials that are refused":   {fails: []string{"PullImage"}, plugin: func(dir string) string { return "cat " + dir + "/response" }},
		"postStart": {fails: []string{"ExecSync"}, change: func(p *v1.Pod) {
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: exec}}
		}},
		"preStop": {fails: []string{"ExecSync"}, change: func(p *v1.Pod) {
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: exec}}
		}, after: func(t *testing.T, _ *v1.Pod, pods *source.Push) {
			must.Do(t, pods.Set())
		}},
		"probe": {fails: []string{"ExecSync"}, change: func(p *v1.Pod) {
			p.Spec.Containers[0].LivenessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: exec}, PeriodSeconds: 1, FailureThreshold: 1}
		}},
		"exec": {fails: []string{"ExecSync", "Exec"}, after: func(*testing.T, *v1.Pod, *source.Push) {}},
		"restart": {fails: []string{"StopContainer"}, after: func(t *testing.T, pod *v1.Pod, pods *source.Push) {
			pod.Spec.Containers[0].Image = "registry.test/app:2"
			must.Do(t, pods.Set(pod))
		}},
		"stop": {fails: []string{"StopContainer", "StopPodSandbox"}, after: func(t *testing.T, _ *v1.Pod, pods *source.Push) {
			must.Do(t, pods.Set())
		}},
		"remove": {fails: []string{"RemoveContainer", "RemovePodSandbox"}, after: func(t *testing.T, pod *v1.Pod, pods *source.Push) {
			for _, version := range []string{"2", "3", "4"} {
				pod = pod.DeepCopy()
				pod.Spec.Containers[0].Image = "registry.test/app:" + version
				must.Do(t, pods.Set(pod))
				time.Sleep(2 * time.Minute)
			}
			must.Do(t, pods.Set())
		}},
		"resize": {fails: []string{"UpdateContainerResources"}, change: func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}
		}, after: func(t *testing.T, pod *v1.Pod, pods *source.Push) {
			pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("200m")
			must.Do(t, pods.Set(pod))
		}},
		"mount": {change: func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", Items: []v1.KeyToPath{{Key: "password", Path: "a"}, {Key: "none", Path: "b"}}}}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var log, events strings.Builder
				dir := t.TempDir()
				_, conn := critest.Start(t, critest.Config{Dir: dir, ServeUnknown: true})
				rt := &chatty{ClientConnInterface: conn, fails: map[string]bool{}, hits: map[string]int{}}
				client := cri.NewClient(rt)
				pods := source.NewPush()
				history := timeline.New(timeline.Config{NodeName: "n1"})
				logger := funcr.New(func(_, line string) {
					mu.Lock()
					defer mu.Unlock()
					log.WriteString(line + "\n")
				}, funcr.Options{Verbosity: 9})
				allocator := must.Get(resize.New(resize.Config{State: filepath.Join(dir, "root", "allocations"), Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("8"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("100")}}))(t)
				config := agent.Config{
					Client: client, Sources: []source.Source{pods}, Root: filepath.Join(dir, "root"), NoEviction: true, Log: logger, NodeName: "n1",
					Sync: syncpod.Config{
						Node: syncpod.Node{LogsRoot: filepath.Join(dir, "logs")}, RuntimeName: "critest",
						Objects:    syncpod.Objects{Sources: env.Sources{Secrets: canarySecrets{}}, PullSecrets: canarySecrets{}},
						Extensions: syncpod.Extensions{Allocations: allocator},
						Events: syncpod.EventRecorderFunc(func(_ k8sruntime.Object, kind, reason, format string, args ...any) {
							mu.Lock()
							defer mu.Unlock()
							fmt.Fprintf(&events, "%s %s %s\n", kind, reason, fmt.Sprintf(format, args...))
						}),
					},
				}
				if tt.plugin != nil {
					config.Sync.Objects.PullSecrets = canaryPlugin(t, tt.plugin)
				}
				if tt.device {
					config.Sync.Extensions.Devices = canaryDevices(t, dir)
				}
				history.Observe(&config)
				a := must.Get(agent.New(config))(t)
				s := must.Get(server.New(server.Config{Agent: a, Client: client, Timeline: history, Stats: a.Stats(), Log: logger, Authenticator: &asked{user: true, allow: true}, Authorizer: &asked{user: true, allow: true}}))(t)
				stop := must.Run(t, a.Run)

				pod := &v1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u"},
					Spec: v1.PodSpec{
						ImagePullSecrets: []v1.LocalObjectReference{{Name: "registry"}},
						Containers: []v1.Container{{Name: "app", Image: "registry.test/app:1", Command: []string{"sh", "-c", "sleep infinity", "$(PW)"},
							Env: []v1.EnvVar{{Name: "PW", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "s"}, Key: "password"}}}}}},
					},
				}
				if tt.change != nil {
					tt.change(pod)
				}
				if tt.after == nil {
					rt.set(tt.fails...)
				}
				must.Do(t, pods.Set(pod))
				time.Sleep(5 * time.Minute)
				where := map[string]string{}
				ask := func(path string) {
					w := httptest.NewRecorder()
					s.ServeHTTP(w, httptest.NewRequest("GET", "https://n1"+path, nil))
					where[path] += w.Body.String()
				}
				look := func() {
					for _, path := range []string{"/explain/default/web", "/pods", "/runningpods", "/timeline", "/timeline?format=trace", "/healthz", "/healthz/syncloop", "/metrics", "/metrics/resource", "/metrics/cadvisor", "/stats/summary"} {
						ask(path)
					}
					where["health"] += fmt.Sprintf("%v %+v", a.Health(), a.Health())
					for _, p := range a.Pods() {
						where["pods"] += fmt.Sprintf("%+v", p.Status)
					}
				}
				look()
				if tt.after != nil {
					if !strings.Contains(where["/pods"], `"running":{`) {
						t.Fatalf("the pod does not run: %s", where["/pods"])
					}
					rt.set(tt.fails...)
					changed := pod.DeepCopy()
					tt.after(t, changed, pods)
					w := httptest.NewRecorder() // of a user who may exec, and so read the variables
					s.ServeHTTP(w, httptest.NewRequest("POST", "https://n1/run/default/web/app?cmd=a", nil))
					time.Sleep(5 * time.Minute)
					look()
				}
				for _, call := range tt.fails {
					if call != "Exec" && !rt.hit(call) {
						t.Errorf("%s was not called", call)
					}
				}
				stop()
				mu.Lock()
				defer mu.Unlock()
				where["log"], where["events"] = log.String(), events.String()
				must.Do(t, filepath.WalkDir(config.Root, func(path string, d fs.DirEntry, err error) error {
					if err != nil || !d.Type().IsRegular() {
						return err
					}
					text, err := os.ReadFile(path)
					where["record "+path] = string(text)
					return err
				}))
				for place, text := range where {
					for _, form := range forms {
						if i := strings.Index(text, form); i >= 0 {
							t.Errorf("%s: ...%s...", place, text[max(0, i-200):min(len(text), i+100)])
							break
						}
					}
				}
				if tt.device && !strings.Contains(where["events"], "vendor-hook") {
					t.Error("the failure of the device plugin was not reported")
				}
				if tt.plugin != nil && len(tt.fails) == 0 && !strings.Contains(where["log"]+where["events"], `credential provider "plugin"`) && !strings.Contains(where["log"]+where["events"], `credential provider \"plugin\"`) {
					t.Error("the failure of the plugin was not reported")
				}
				if len(tt.fails) > 0 && name != "exec" && !strings.Contains(where["log"]+where["events"]+where["/pods"], "redacted]") && !strings.Contains(where["log"]+where["events"], "app") {
					t.Error("the failure was not reported at all")
				}
			})
		})
	}
}

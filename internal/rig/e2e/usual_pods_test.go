package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/source"
	"github.com/podsync/podsync/syncpod/volume/local"
)

// The annotations of a pod in testdata/usual.yaml say how it ends: its phase, its containers' states and logs. A pod with
// inMemory ends so in memory, because the runtime in memory refuses something, and an event or a problem of the runtime says so.
const (
	wanted   = "want"
	logged   = "log"
	inMemory = "in-memory"
	refusal  = "refusal"
)

// usual is the content of testdata/usual.yaml. A pod's second document is its change once it has come to what the first wants.
type usual struct {
	pods    [][]*v1.Pod
	config  map[string]*v1.ConfigMap
	secrets map[string]*v1.Secret
}

var busybox = regexp.MustCompile(`image: (registry\.k8s\.io/)?busybox(:[0-9.]+)?`)

// readUsual reads the file. image replaces busybox if it is set.
func readUsual(t *testing.T, hostDir, image string) usual {
	t.Helper()
	text := string(must.Get(os.ReadFile("testdata/usual.yaml"))(t))
	text = strings.ReplaceAll(text, "HOSTDIR", hostDir)
	if image != "" {
		text = busybox.ReplaceAllString(text, "image: "+image)
	}
	u := usual{config: map[string]*v1.ConfigMap{}, secrets: map[string]*v1.Secret{}}
	documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		doc, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return u
		}
		must.Do(t, err)
		switch {
		case bytes.Contains(doc, []byte("kind: ConfigMap")):
			c := parsed[v1.ConfigMap](t, doc)
			u.config[c.Name] = c
		case bytes.Contains(doc, []byte("kind: Secret")):
			s := parsed[v1.Secret](t, doc)
			u.secrets[s.Name] = s
		default:
			p := parsed[v1.Pod](t, doc)
			p.Namespace, p.UID = namespace, types.UID("usual-"+p.Name)
			if n := len(u.pods); n > 0 && u.pods[n-1][0].Name == p.Name {
				u.pods[n-1] = append(u.pods[n-1], p)
			} else {
				u.pods = append(u.pods, []*v1.Pod{p})
			}
		}
	}
}

func parsed[T any](t *testing.T, doc []byte) *T {
	t.Helper()
	v := new(T)
	if err := yaml.UnmarshalStrict(doc, v); err != nil {
		t.Fatalf("%v in\n%s", err, doc)
	}
	return v
}

func (u usual) ConfigMap(_ context.Context, _, name string) (*v1.ConfigMap, error) {
	if c := u.config[name]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("configmap %q %w", name, env.ErrNotFound)
}

func (u usual) Secret(_ context.Context, _, name string) (*v1.Secret, error) {
	if s := u.secrets[name]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("secret %q %w", name, env.ErrNotFound)
}

func (usual) Token(context.Context, *v1.Pod, *v1.ServiceAccountTokenProjection) (string, error) {
	return "a token", nil
}

// usualImages are the images in memory whose content matters.
func usualImages() []critest.Image {
	return []critest.Image{{Name: "localhost/busybox:e2e", Files: map[string]string{"/bin/busybox": ""}}}
}

// Pods as people write them end in the same state in memory as on a real node, or the runtime in memory refuses them with a message.
func TestUsualPods(t *testing.T) {
	for _, versions := range readUsual(t, "", "").pods {
		name := versions[0].Name
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			u := readUsual(t, filepath.Join(root, "host"), "")
			synctest.Test(t, func(t *testing.T) {
				rt, conn := critest.Start(t, critest.Config{Dir: root, LogsRoot: filepath.Join(root, "logs"), Images: usualImages()})
				s := startUsual(t, u, cri.NewClient(conn), "critest", root, true)
				i := slices.IndexFunc(u.pods, func(v []*v1.Pod) bool { return v[0].Name == name })
				s.problems = rt.Problems
				s.comesTo(t, u.pods[i], inMemory, time.Hour)
			})
		})
	}
}

// The same pods on real runtimes, with PODSYNC_USUAL=1. CI leaves them out: docs/results/twin.txt has the last run.
func TestUsualPodsOnRuntimes(t *testing.T) {
	if os.Getenv("PODSYNC_USUAL") == "" {
		t.Skip("PODSYNC_USUAL is not set")
	}
	onNodes(t, func(n *node) {
		u := readUsual(n.T, n.TempDir(), "localhost/busybox:e2e")
		client := must.Get(cri.Dial(n.Context(), cri.Config{Endpoint: n.endpoint}))(n)
		n.Cleanup(func() { _ = client.Close() })
		s := startUsual(n.T, u, client, client.RuntimeName(), n.root, false)
		for _, versions := range u.pods {
			n.Run(versions[0].Name, func(t *testing.T) {
				t.Parallel()
				if versions[0].Annotations[wanted] == "" {
					t.Skip("its image is not there")
				}
				s.comesTo(t, versions, wanted, patience)
			})
		}
	})
}

// usualAgent is an agent, and what it has reported.
type usualAgent struct {
	root     string
	node     string // what a kubelet appends to the names of pods
	run      func(*v1.Pod) error
	stop     func(*v1.Pod)
	problems func() []string // of the runtime, nil for none

	mu       sync.Mutex
	statuses map[string]v1.PodStatus
	events   map[string][]string
}

func startUsual(t *testing.T, u usual, client *cri.Client, name, root string, unprivileged bool) *usualAgent {
	t.Helper()
	pods := source.NewPush()
	s := &usualAgent{root: root, run: pods.Update, stop: func(p *v1.Pod) { pods.Delete(p.UID) }, statuses: map[string]v1.PodStatus{}, events: map[string][]string{}}
	volumes := must.Get(local.New(local.Config{ConfigMaps: u, Secrets: u, Tokens: u, Unprivileged: unprivileged}))(t)
	a := must.Get(nodeagent.New(nodeagent.Config{
		Client: client, Root: root, Sources: []source.Source{pods}, NoEviction: true, NoImageGC: true, NoOOMEvents: true,
		Sync: syncpod.Config{
			RuntimeName: name, Sink: s, Events: syncpod.EventRecorderFunc(s.event), Owner: cri.Owner{Name: "usual"},
			Node:    syncpod.Node{LogsRoot: filepath.Join(root, "logs")},
			Objects: syncpod.Objects{Sources: env.Sources{ConfigMaps: u, Secrets: u}, Tokens: u},
			Parts:   syncpod.Parts{Volumes: volumes},
		},
	}))(t)
	must.Run(t, a.Run)
	must.Do(t, pods.Set())
	return s
}

func (s *usualAgent) SetPodStatus(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses[pod.Name] = status
	return nil
}

func (s *usualAgent) event(object runtime.Object, kind, reason, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ref, ok := object.(*v1.ObjectReference); ok {
		s.events[ref.Name] = append(s.events[ref.Name], kind+" "+reason+" "+fmt.Sprintf(format, args...))
	}
}

// comesTo runs a pod's versions, and waits until each ends as its annotation says.
func (s *usualAgent) comesTo(t *testing.T, versions []*v1.Pod, which string, within time.Duration) {
	t.Helper()
	for _, pod := range versions {
		want, says := pod.Annotations[which], ""
		if want == "" {
			want = pod.Annotations[wanted]
		} else if which == inMemory {
			says = pod.Annotations[refusal]
		}
		if log := pod.Annotations[logged]; log != "" {
			want += "; " + log
		}
		must.Do(t, s.run(pod))
		got := ""
		for deadline := time.Now().Add(within); got != want || !strings.Contains(s.said(pod.Name), says); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("after %v it is\n%s\nwant\n%s\nand %q in\n%s", within, got, want, says, s.said(pod.Name))
			}
			got = s.describe(pod)
		}
	}
	s.stop(versions[0])
}

// said returns a pod's different events, and the runtime's problems.
func (s *usualAgent) said(pod string) string {
	s.mu.Lock()
	all := slices.Clone(s.events[pod])
	s.mu.Unlock()
	if s.problems != nil {
		all = append(all, s.problems()...)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n")
}

func (s *usualAgent) describe(pod *v1.Pod) string {
	s.mu.Lock()
	status := s.statuses[pod.Name+s.node]
	s.mu.Unlock()
	text := []string{strings.TrimSpace(string(status.Phase) + " " + status.Reason)}
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses) {
		text = append(text, c.Name+" "+state(c))
	}
	if pod.Annotations[logged] != "" {
		text = append(text, s.logs(pod))
	}
	return strings.Join(text, "; ")
}

func state(c v1.ContainerStatus) string {
	text := "unknown"
	switch s := c.State; {
	case s.Waiting != nil:
		text = "waiting " + s.Waiting.Reason
	case s.Running != nil && c.Ready:
		text = "ready"
	case s.Running != nil:
		text = "running"
	case s.Terminated != nil:
		text = fmt.Sprintf("exited %d %s", s.Terminated.ExitCode, s.Terminated.Reason)
		if m := strings.TrimSpace(s.Terminated.Message); m != "" && s.Terminated.Reason != "StartError" {
			text += fmt.Sprintf(" %q", m)
		}
	}
	if c.RestartCount > 0 {
		text += " restarted"
	}
	return text
}

// logs returns the lines of all containers' logs, in the order of the containers and of their restarts.
func (s *usualAgent) logs(pod *v1.Pod) string {
	var all []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		files, _ := filepath.Glob(filepath.Join(s.root, "logs", fmt.Sprintf("%s_%s_*", pod.Namespace, pod.Name+s.node), c.Name, "*.log"))
		for _, name := range files {
			b, _ := os.ReadFile(name) // it may be rotated or removed
			for line := range strings.Lines(string(b)) {
				if fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4); len(fields) == 4 {
					all = append(all, strings.ReplaceAll(fields[3], s.node, ""))
				}
			}
		}
	}
	return strings.Join(all, " | ")
}

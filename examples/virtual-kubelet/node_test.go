package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
)

const nodeName = "edge-7"

// These tests check at least as much as virtual-kubelet's own suite for providers (its package test/e2e), which needs a
// cluster.

// A site is a node, its runtime and the API server, all in virtual time.
type site struct {
	*testing.T
	runtime *critest.Runtime
	conn    *critest.Conn
	kube    *fake.Clientset
	root    string
	end     func() // stops the node
}

func onSite(t *testing.T, test func(s *site)) {
	synctest.Test(t, func(t *testing.T) {
		rt, conn := critest.Start(t, critest.Config{})
		s := &site{T: t, runtime: rt, conn: conn, kube: fake.NewClientset(), root: t.TempDir()}
		s.kube.PrependReactor("create", "events", numbered())
		s.start()
		test(s)
		s.end()
	})
}

// numbered gives each event a unique name: a recorder derives names from the time, and in virtual time many events have
// the same time.
func numbered() ktesting.ReactionFunc {
	n := 0
	return func(action ktesting.Action) (bool, runtime.Object, error) {
		n++
		event := action.(ktesting.CreateAction).GetObject().(*v1.Event)
		event.Name = fmt.Sprintf("%s.%d", event.InvolvedObject.Name, n)
		return false, nil, nil
	}
}

// start runs the node.
func (s *site) start() {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, s.kube, nodeName, agent.Config{
			Client: cri.NewClient(s.conn), Root: s.root,
			Sync:       syncpod.Config{RuntimeName: "containerd", Node: syncpod.Node{LogsRoot: filepath.Join(s.root, "logs")}},
			NoEviction: true, NoLogRotation: true, // pods in memory do not fill the disk of the test machine, and write no logs
		})
	}()
	s.end = func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("the node ended with %v", err)
		}
	}
	time.Sleep(time.Second)
}

const (
	// serve is a script that exits 5 s after SIGTERM.
	serve = "trap 'sleep 5; exit 0' TERM; sleep infinity & wait"
	// deaf is a script that ignores SIGTERM.
	deaf = "trap '' TERM; sleep infinity"
)

// podOf returns a pod in the API server that runs a script.
func podOf(name string, uid types.UID, script string) *v1.Pod {
	grace := int64(30)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid},
		Spec: v1.PodSpec{
			NodeName: nodeName, RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace,
			Containers: []v1.Container{{Name: "app", Image: "registry.test/app:1", Command: []string{"sh", "-c", script}}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}

func (s *site) create(pod *v1.Pod) {
	s.Helper()
	if _, err := s.kube.CoreV1().Pods(pod.Namespace).Create(s.Context(), pod, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	time.Sleep(2 * time.Second)
}

// get returns a pod in the API server, nil if it does not exist.
func (s *site) get(name string) *v1.Pod {
	s.Helper()
	pod, err := s.kube.CoreV1().Pods("default").Get(s.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.Fatal(err)
	}
	return pod
}

// mark requests the pod's deletion, as the API server does: the node must then stop the pod and delete its object.
func (s *site) mark(name string, grace int64) {
	s.Helper()
	pod := s.get(name).DeepCopy()
	pod.DeletionGracePeriodSeconds = &grace
	pod.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(time.Duration(grace) * time.Second)}
	if _, err := s.kube.CoreV1().Pods("default").Update(s.Context(), pod, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// remove removes a pod from the API server immediately, like a forced deletion.
func (s *site) remove(name string) {
	s.Helper()
	if err := s.kube.CoreV1().Pods("default").Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *site) stops(uid types.UID) critest.Journal {
	return s.runtime.Journal().Pod(string(uid)).Of(critest.StopContainer)
}

func TestNodeIsReady(t *testing.T) {
	onSite(t, func(s *site) {
		node, err := s.kube.CoreV1().Nodes().Get(s.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			s.Fatal(err)
		}
		if c := node.Status.Conditions; len(c) != 1 || c[0].Type != v1.NodeReady || c[0].Status != v1.ConditionTrue {
			s.Errorf("its conditions are %+v", c)
		}
	})
}

func TestPodRuns(t *testing.T) {
	onSite(t, func(s *site) {
		s.create(podOf("web", "web-1", serve))
		if got := s.get("web").Status; got.Phase != v1.PodRunning || got.PodIP == "" || !got.ContainerStatuses[0].Ready {
			s.Errorf("the pod is %+v", got)
		}
		events, err := s.kube.CoreV1().Events("default").List(s.Context(), metav1.ListOptions{})
		if err != nil {
			s.Fatal(err)
		}
		var reasons []string
		for _, e := range events.Items {
			reasons = append(reasons, e.Reason)
		}
		if got := strings.Join(reasons, " "); !strings.Contains(got, "Pulled") || !strings.Contains(got, "Started") {
			s.Errorf("events: %s, want %q in it and %q in it", got, "Pulled", "Started")
		}
	})
}

// A container that crashes is restarted, and its status in the API server has the restart count.
func TestPodCrashes(t *testing.T) {
	onSite(t, func(s *site) {
		s.create(podOf("web", "web-1", "exit 3"))
		time.Sleep(33 * time.Second)
		app := s.get("web").Status.ContainerStatuses[0]
		if app.RestartCount != 3 || app.State.Waiting == nil || app.State.Waiting.Reason != "CrashLoopBackOff" {
			s.Errorf("after 35 s the container is %+v", app)
		}
	})
}

// A deleted pod has its grace period, and its object is removed afterwards.
func TestPodIsDeleted(t *testing.T) {
	for _, tt := range []struct {
		script string
		grace  int64
		takes  time.Duration
	}{{serve, 30, 5 * time.Second}, {deaf, 30, 30 * time.Second}, {deaf, 7, 7 * time.Second}} {
		onSite(t, func(s *site) {
			s.create(podOf("web", "web-1", tt.script))
			s.mark("web", tt.grace)
			time.Sleep(time.Duration(tt.grace)*time.Second - time.Millisecond)
			if s.get("web") == nil {
				s.Error("it went before its time")
			}
			time.Sleep(2 * time.Second)
			if s.get("web") != nil {
				s.Error("it stayed")
			}
			if stops := s.stops("web-1"); len(stops) != 1 || stops[0].Duration() != tt.takes {
				s.Errorf("it was stopped by\n%v", stops)
			}
			time.Sleep(time.Minute)
			if left := s.runtime.Journal().Of(critest.RemovePodSandbox); len(left) != 1 {
				s.Errorf("its sandbox was removed by\n%v", left)
			}
		})
	}
}

// A pod that is deleted by force is stopped, although the API server no longer has its object.
func TestPodIsDeletedByForce(t *testing.T) {
	onSite(t, func(s *site) {
		s.create(podOf("web", "web-1", serve))
		s.remove("web")
		time.Sleep(10 * time.Second)
		if stops := s.stops("web-1"); len(stops) != 1 {
			s.Errorf("it was stopped by\n%v", stops)
		}
	})
}

// A new pod with the name and the spec of a deleted pod is another pod: it replaces the old one.
func TestPodIsReplaced(t *testing.T) {
	onSite(t, func(s *site) {
		s.create(podOf("web", "web-1", serve))
		s.remove("web")
		s.create(podOf("web", "web-2", serve))
		time.Sleep(10 * time.Second)
		if got := s.get("web"); got.UID != "web-2" || got.Status.Phase != v1.PodRunning {
			s.Errorf("the second one is %+v", got)
		}
		if len(s.stops("web-1")) != 1 || len(s.stops("web-2")) != 0 {
			s.Errorf("stopped was\n%v", s.runtime.Journal().Of(critest.StopContainer))
		}
	})
}

// A pod waits until the ConfigMap and the Secret that it refers to exist in the API server.
func TestPodOfConfigMapAndSecret(t *testing.T) {
	onSite(t, func(s *site) {
		pod := podOf("web", "web-1", `test "$COLOUR" = blue && test -n "$KEY" && `+deaf)
		pod.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{
			{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "colours"}}},
			{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "keys"}}},
		}
		s.create(pod)
		if w := s.get("web").Status.ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "CreateContainerConfigError" || !strings.Contains(w.Message, `"colours"`) {
			s.Errorf("without them it waits for %+v", w)
		}
		meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
		if _, err := s.kube.CoreV1().ConfigMaps("default").Create(s.Context(),
			&v1.ConfigMap{ObjectMeta: meta("colours"), Data: map[string]string{"COLOUR": "blue"}}, metav1.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
		if _, err := s.kube.CoreV1().Secrets("default").Create(s.Context(),
			&v1.Secret{ObjectMeta: meta("keys"), Data: map[string][]byte{"KEY": []byte("s3cret")}}, metav1.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := s.get("web").Status; got.Phase != v1.PodRunning {
			s.Errorf("with them it is %+v", got)
		}
		text, err := s.get("web").Marshal()
		if err != nil || strings.Contains(string(text), "s3cret") {
			s.Errorf("the API server received the secret, %v", err)
		}
	})
}

// A pod runs without optional ConfigMaps and Secrets.
func TestPodOfOptionalConfigMapAndSecret(t *testing.T) {
	onSite(t, func(s *site) {
		optional, none := true, v1.LocalObjectReference{Name: "none"}
		pod := podOf("web", "web-1", serve)
		pod.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{
			{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: none, Optional: &optional}},
			{SecretRef: &v1.SecretEnvSource{LocalObjectReference: none, Optional: &optional}},
		}
		s.create(pod)
		if got := s.get("web").Status; got.Phase != v1.PodRunning {
			s.Errorf("the pod is %+v", got)
		}
	})
}

// An invalid pod does not run, and its status has the error.
func TestPodIsNotValid(t *testing.T) {
	onSite(t, func(s *site) {
		pod := podOf("web", "web-1", serve)
		pod.Spec.RestartPolicy, pod.Spec.Containers[0].Name = v1.RestartPolicyNever, "App"
		s.create(pod)
		if got := s.get("web").Status; got.Phase != v1.PodFailed || !strings.Contains(got.Message, "spec.containers[0].name") {
			s.Errorf("the pod is %+v", got)
		}
	})
}

// Pods keep running while the node restarts, and pods that were deleted meanwhile are stopped.
func TestNodeRestarts(t *testing.T) {
	onSite(t, func(s *site) {
		s.create(podOf("web", "web-1", serve))
		s.create(podOf("db", "db-1", serve))
		s.end()
		calls := len(s.runtime.Journal())
		s.remove("db")
		s.start()
		time.Sleep(time.Minute)
		changes := s.runtime.Journal().After(calls).Changes()
		if got := changes.Pod("web-1"); len(got) > 0 {
			s.Errorf("this was done to a pod that ran:\n%v", got)
		}
		if got := changes.Pod("db-1").Of(critest.StopContainer); len(got) != 1 {
			s.Errorf("a pod that was deleted was stopped by\n%v", got)
		}
		if got := s.get("web").Status; got.Phase != v1.PodRunning || got.ContainerStatuses[0].RestartCount != 0 {
			s.Errorf("the pod is %+v", got)
		}
	})
}

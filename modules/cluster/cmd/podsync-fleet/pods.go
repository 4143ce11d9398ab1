package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podsync/podsync/modules/cluster/internal/queue"
)

const (
	// createRetry and lastCreateRetry are the shortest and the longest pause after a failure to create a pod.
	createRetry, lastCreateRetry = time.Second, 10 * time.Second
	// creators is the number of concurrent requests that create pods.
	creators = 10
)

// wantedPods keeps the pods of --pods: it creates them, and each one again that was deleted.
type wantedPods struct {
	kube    kubernetes.Interface
	pods    int
	missing *queue.Queue[int]
}

func newWantedPods(kube kubernetes.Interface, pods int) *wantedPods {
	w := &wantedPods{kube: kube, pods: pods, missing: queue.New[int](createRetry, lastCreateRetry)}
	for i := range pods {
		w.missing.Add(i)
	}
	return w
}

// podDeleted creates a pod again if it is one of these.
func (w *wantedPods) podDeleted(pod *v1.Pod) {
	suffix, ok := strings.CutPrefix(pod.Name, namePrefix)
	if i, err := strconv.Atoi(suffix); ok && err == nil && i >= 0 && i < w.pods && pod.Namespace == metav1.NamespaceDefault {
		w.missing.Add(i)
	}
}

// run creates pods until ctx ends.
func (w *wantedPods) run(ctx context.Context) {
	w.missing.Run(ctx, creators, w.create, func(int, error) {}) // the report counts failed requests
}

func (w *wantedPods) create(ctx context.Context, i int) error {
	_, err := w.kube.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: numbered(i), Labels: map[string]string{"app": "fleet"}},
		Spec: v1.PodSpec{AutomountServiceAccountToken: new(false), Containers: []v1.Container{{Name: "app", Image: "registry.test/app:1"}},
			Tolerations: []v1.Toleration{{Operator: v1.TolerationOpExists}}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

package controllers_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/podsync/podsync/modules/cluster/clustertest"
)

// roller is the operator under test: it deletes the pods of an old revision, one after another, each once all pods are
// ready.
type roller struct{ client.Client }

func (r roller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var set appsv1.StatefulSet
	var pods v1.PodList
	if err := r.Get(ctx, request.NamespacedName, &set); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.List(ctx, &pods, client.InNamespace(set.Namespace), client.MatchingLabels(set.Spec.Selector.MatchLabels)); err != nil {
		return ctrl.Result{}, err
	}
	ready := 0
	var old *v1.Pod
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] != set.Status.UpdateRevision && (old == nil || p.Name > old.Name) {
			old = p
		}
		if podutil.IsPodReady(p) && p.DeletionTimestamp == nil {
			ready++
		}
	}
	if old == nil || ready < int(*set.Spec.Replicas) || set.Status.ObservedGeneration < set.Generation {
		return ctrl.Result{}, nil // the next change of a pod enqueues the StatefulSet again
	}
	// The cache may not have the last deletion yet: then this deletes the same pod again, and not another one.
	return ctrl.Result{}, client.IgnoreNotFound(r.Delete(ctx, old, client.Preconditions{UID: &old.UID}))
}

// operate runs the operator until the test ends.
func operate(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	m, err := ctrl.NewManager(c.RESTConfig(), ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)}})
	if err == nil {
		err = ctrl.NewControllerManagedBy(m).For(&appsv1.StatefulSet{}).Owns(&v1.Pod{}).Complete(roller{m.GetClient()})
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

const set = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  podManagementPolicy: OrderedReady
  updateStrategy: {type: OnDelete}
  revisionHistoryLimit: 10
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 20
      containers: [{name: db, image: IMAGE, readinessProbe: {tcpSocket: {port: 5432}, initialDelaySeconds: 30}}]
`

// The operator replaces all pods, and never deletes a second pod before the replacement of the first is ready.
func TestOperatorRolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.Start(t, clustertest.Config{Nodes: 3})
		controllers(t, c)
		operate(t, c)
		c.ApplyYAML(t, strings.ReplaceAll(set, "IMAGE", "db:1"))
		c.WaitFor(t, "default/db-2", clustertest.Ready, time.Hour)
		c.ApplyYAML(t, strings.ReplaceAll(set, "IMAGE", "db:2"))
		c.Eventually(t, "all pods run the new image", time.Hour, func(ctx context.Context) bool {
			images, ready := map[string]int{}, 0
			pods, err := c.Clientset().CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			if err != nil {
				return false
			}
			for _, p := range pods.Items {
				images[p.Spec.Containers[0].Image]++
				if podutil.IsPodReady(&p) {
					ready++
				}
			}
			if ready < 2 {
				t.Fatalf("%d pods are ready, want 2 at least", ready)
			}
			return images["db:2"] == 3 && ready == 3
		})
		c.NoDoubleRuns(t)
	})
}

//go:build linux

package e2e

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const (
	webReplicas, dbReplicas = 3, 2
	// keptJobs is the number of Jobs that exist at a time.
	keptJobs = 3
)

// podOf returns the selector and the pod template of a workload.
func (h *hostile) podOf(workload, then string, restart v1.RestartPolicy) (metav1.LabelSelector, v1.PodTemplateSpec) {
	t := template(h.folder, then, restart)
	t.Labels = map[string]string{"of": workload}
	if restart == v1.RestartPolicyAlways {
		t.Spec.Containers[0].ReadinessProbe = &v1.Probe{PeriodSeconds: 5, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
	}
	return metav1.LabelSelector{MatchLabels: t.Labels}, t
}

// furnish creates a Deployment, a Deployment whose container crashes, a StatefulSet and a DaemonSet.
func (h *hostile) furnish() {
	h.Helper()
	apps := h.kube.AppsV1()
	deploy := func(name, then string, replicas int32) error {
		selector, pod := h.podOf(name, then, v1.RestartPolicyAlways)
		_, err := apps.Deployments(h.namespace).Create(h.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &selector, Template: pod},
		}, metav1.CreateOptions{})
		return err
	}
	must.Do(h, deploy("web", serving, webReplicas))
	must.Do(h, deploy("crashing", "sleep 20; exit 1", 1))
	selector, pod := h.podOf("db", serving, v1.RestartPolicyAlways)
	must.Get(apps.StatefulSets(h.namespace).Create(h.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(dbReplicas)), ServiceName: "db", Selector: &selector, Template: pod},
	}, metav1.CreateOptions{}))(h)
	selector, pod = h.podOf("logs", serving, v1.RestartPolicyAlways)
	must.Get(apps.DaemonSets(h.namespace).Create(h.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "logs"}, Spec: appsv1.DaemonSetSpec{Selector: &selector, Template: pod},
	}, metav1.CreateOptions{}))(h)
	h.settledFirst()
}

// settledFirst waits until the pods of all workloads are ready for the first time.
func (h *hostile) settledFirst() {
	h.Helper()
	h.wait(3*time.Minute, "pods that are ready", func() bool {
		n := 0
		for _, p := range h.pods() {
			if ready(&p) && p.Labels["of"] != "crashing" {
				n++
			}
		}
		return n == webReplicas+dbReplicas+1
	})
}

// churn changes the workloads: it rolls out the Deployment, creates a Job and deletes the oldest one. In every third round
// it also rolls out the DaemonSet, and in the other rounds it deletes a pod of the StatefulSet.
func (h *hostile) churn(round int) {
	h.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"round":"%d"}}}}}`, round)
	var errs []error
	_, err := h.kube.AppsV1().Deployments(h.namespace).Patch(h.Context(), "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	errs = append(errs, err)
	if round%3 == 2 {
		_, err = h.kube.AppsV1().DaemonSets(h.namespace).Patch(h.Context(), "logs", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	} else {
		err = h.kube.CoreV1().Pods(h.namespace).Delete(h.Context(), fmt.Sprint("db-", round%dbReplicas), metav1.DeleteOptions{})
	}
	errs = append(errs, err)
	_, pod := h.podOf("sums", "sleep 8", v1.RestartPolicyNever)
	_, err = h.kube.BatchV1().Jobs(h.namespace).Create(h.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("sums-", round)},
		Spec:       batchv1.JobSpec{Completions: new(int32(4)), Parallelism: new(int32(2)), BackoffLimit: new(int32(20)), Template: pod},
	}, metav1.CreateOptions{})
	errs = append(errs, err)
	if old := round - keptJobs; old >= 0 {
		background := metav1.DeletePropagationBackground
		errs = append(errs, h.kube.BatchV1().Jobs(h.namespace).Delete(h.Context(), fmt.Sprint("sums-", old), metav1.DeleteOptions{PropagationPolicy: &background}))
	}
	for _, err := range errs {
		if err != nil && !apierrors.IsNotFound(err) {
			h.Errorf("round %d: %v", round, err)
		}
	}
}

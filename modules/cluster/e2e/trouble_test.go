//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// notes is a script that records in a file of its pod that the container has started, and that it has run for a second.
const notes = "echo started >> /runs/$POD_UID; sleep 1; echo ran >> /runs/$POD_UID; "

// template returns a pod that records each of its runs in a directory of the node, and then runs a script.
func template(folder, then string, restart v1.RestartPolicy) v1.PodTemplateSpec {
	return v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "trouble"}},
		Spec: v1.PodSpec{
			RestartPolicy: restart, TerminationGracePeriodSeconds: new(int64(2)),
			Volumes: []v1.Volume{{Name: "runs", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: folder}}}},
			Containers: []v1.Container{{
				Name: "app", Image: image(), ImagePullPolicy: v1.PullIfNotPresent, Command: []string{"sh", "-c", notes + then},
				Env:          []v1.EnvVar{{Name: "POD_UID", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.uid"}}}},
				VolumeMounts: []v1.VolumeMount{{Name: "runs", MountPath: "/runs"}},
			}},
		},
	}
}

const serving = "trap 'exit 0' TERM; while true; do sleep 1; done"

func (r *rig) deploy(folder string, replicas int32) {
	r.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "trouble", "of": "web"}}, Template: template(folder, serving, v1.RestartPolicyAlways),
	}}
	d.Spec.Template.Labels["of"] = "web"
	must.Get(r.kube.AppsV1().Deployments(r.namespace).Create(r.Context(), d, metav1.CreateOptions{}))(r)
}

// serves waits until all replicas are ready.
func (r *rig) serves(replicas int32) {
	r.Helper()
	r.wait(2*time.Minute, "a whole deployment", func() bool {
		d, err := r.kube.AppsV1().Deployments(r.namespace).Get(r.Context(), "web", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == replicas && d.Status.Replicas == replicas
	})
}

// ranOnce checks that no pod has run its container twice, and returns the number of pods that have started. If the agent
// is killed during a start, the runtime may start the container and then abandon it. Such a container has not run for a
// second, and does not count as a run.
func (r *rig) ranOnce(folder string) int {
	r.Helper()
	files := must.Get(os.ReadDir(folder))(r)
	for _, f := range files {
		text := must.Get(os.ReadFile(filepath.Join(folder, f.Name())))(r)
		if strings.Count(string(text), "ran") > 1 {
			r.Errorf("the container of pod %s has run twice: %q", f.Name(), text)
		}
		if n := strings.Count(string(text), "started"); n > 1 {
			r.Logf("the runtime has begun the container of pod %s %d times", f.Name(), n)
		}
	}
	return len(files)
}

// uids returns the UIDs of the deployment's pods, and checks that none of their containers was restarted.
func (r *rig) uids() map[types.UID]bool {
	r.Helper()
	uids := map[types.UID]bool{}
	for _, p := range r.pods() {
		if p.Labels["of"] != "web" {
			continue
		}
		uids[p.UID] = true
		for _, c := range p.Status.ContainerStatuses {
			if c.RestartCount != 0 {
				r.Errorf("the container of %s was restarted %d times", p.Name, c.RestartCount)
			}
		}
	}
	return uids
}

func same(a, b map[types.UID]bool) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// The agent is killed twenty times, while pods are created and deleted, the pods of a Deployment run and the pods of a
// Job end: no container runs twice, and no pod is left behind.
func TestAgentIsKilled(t *testing.T) {
	r := newRig(t)
	folder := t.TempDir()
	const replicas, completions = 5, 40
	r.deploy(folder, replicas)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "sums"}, Spec: batchv1.JobSpec{
		Completions: new(int32(completions)), Parallelism: new(int32(4)), BackoffLimit: new(int32(0)), Template: template(folder, "sleep 3", v1.RestartPolicyNever),
	}}
	must.Get(r.kube.BatchV1().Jobs(r.namespace).Create(t.Context(), job, metav1.CreateOptions{}))(t)
	random := rand.New(rand.NewPCG(1, 1))
	bare := 0
	for round := range 20 {
		for range 3 {
			one := template(folder, serving, v1.RestartPolicyAlways)
			r.create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("bare-", bare)}, Spec: one.Spec})
			bare++
			if old := bare - 4; old >= 0 {
				r.delete(fmt.Sprint("bare-", old))
			}
		}
		if round == 10 { // a pod of the deployment is also replaced
			for _, p := range r.pods() {
				if p.Labels["of"] == "web" {
					r.delete(p.Name)
					break
				}
			}
		}
		time.Sleep(time.Duration(500+random.IntN(2500)) * time.Millisecond)
		start := r.kill("kubelet")
		time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
		start()
	}
	r.wait(5*time.Minute, "the end of the job", func() bool {
		j, err := r.kube.BatchV1().Jobs(r.namespace).Get(t.Context(), "sums", metav1.GetOptions{})
		if err == nil && j.Status.Failed > 0 {
			t.Fatalf("%d pods of the job have failed", j.Status.Failed)
		}
		return err == nil && j.Status.Succeeded == completions
	})
	r.serves(replicas)
	ran := r.ranOnce(folder)
	t.Logf("%d pods have run; %d bare ones were made", ran, bare)
	if ran < replicas+completions {
		t.Errorf("%d pods have run", ran)
	}
	must.Do(t, r.kube.CoreV1().Namespaces().Delete(t.Context(), r.namespace, metav1.DeleteOptions{}))
	r.wait(2*time.Minute, "the end of all pods", func() bool { return len(r.pods()) == 0 })
}

// The API server is unavailable for a minute. No container is restarted. Afterwards the agent completes the earlier
// deletion and reports the exit, and a new pod runs.
func TestAPIServerIsKilled(t *testing.T) {
	r := newRig(t)
	folder := t.TempDir()
	r.deploy(folder, 3)
	one := template(folder, serving, v1.RestartPolicyAlways)
	r.create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "going"}, Spec: one.Spec})
	ends := template(folder, "sleep 20; exit 3", v1.RestartPolicyNever)
	r.create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "ending"}, Spec: ends.Spec})
	r.serves(3)
	r.wait(time.Minute, "pods that run", func() bool { return r.ranOnce(folder) == 5 })
	before := r.uids()
	r.delete("going")
	start := r.kill("kube-apiserver")
	time.Sleep(time.Minute) // no check runs meanwhile
	start()
	r.wait(2*time.Minute, "an API server", func() bool {
		_, err := r.kube.CoreV1().Pods(r.namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	r.serves(3)
	if after := r.uids(); !same(before, after) {
		t.Errorf("the pods were %v and are %v", before, after)
	}
	r.wait(2*time.Minute, "the end of the pod that was deleted, and the exit code of the one that has ended", func() bool {
		code := int32(-1)
		for _, p := range r.pods() {
			if p.Name == "going" {
				return false
			}
			if p.Name == "ending" && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Terminated != nil {
				code = p.Status.ContainerStatuses[0].State.Terminated.ExitCode
			}
		}
		return code == 3
	})
	r.create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "next"}, Spec: one.Spec})
	r.wait(3*time.Minute, "a new pod", func() bool { return r.ranOnce(folder) == 6 }) // watches of client-go wait for up to a minute
}

// The Node is deleted while its agent runs: the agent creates it again, the pods keep running, and a new pod runs.
func TestNodeIsDeleted(t *testing.T) {
	r := newRig(t)
	folder := t.TempDir()
	r.deploy(folder, 3)
	r.serves(3)
	before := r.uids()
	old := must.Get(r.kube.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{}))(t)
	must.Do(t, r.kube.CoreV1().Nodes().Delete(t.Context(), nodeName, metav1.DeleteOptions{}))
	r.wait(time.Minute, "another Node that is ready, with a lease", func() bool {
		n, err := r.kube.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		lease, leaseErr := r.kube.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil || leaseErr != nil || n.UID == old.UID || len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].UID != n.UID {
			return false
		}
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady {
				return c.Status == v1.ConditionTrue && len(n.Spec.Taints) == 0
			}
		}
		return false
	})
	one := template(folder, serving, v1.RestartPolicyAlways)
	r.create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "next"}, Spec: one.Spec})
	r.wait(time.Minute, "a new pod", func() bool { return r.ranOnce(folder) == 4 })
	time.Sleep(time.Minute) // time for controllers to delete pods of a missing node
	if after := r.uids(); !same(before, after) {
		t.Errorf("the pods were %v and are %v", before, after)
	}
}

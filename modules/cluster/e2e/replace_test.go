//go:build linux

package e2e

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const (
	// tokenID and tokenSecret are the bootstrap token in bootstrap-kubelet.conf.
	tokenID, tokenSecret = "e2e000", "e2e0000000000000"
	// adoption is the time that a new agent gets to restart a container by mistake.
	adoption = 45 * time.Second
)

// replaced is a node whose agent is replaced.
type replaced struct {
	*rig
	runtime *cri.Client
	folder  string
}

// TestKubeletIsReplaced starts a kubelet as kubeadm does: with a KubeletConfiguration, the flags of kubeadm-flags.env and a
// bootstrap token. It replaces the kubelet by podsync-node with the same files, and then the other way round. No container
// may restart, and each agent must update, create and delete pods.
func TestKubeletIsReplaced(t *testing.T) {
	kubelet, node := os.Getenv("PODSYNC_REPLACE_KUBELET"), os.Getenv("PODSYNC_REPLACE_NODE")
	if kubelet == "" || node == "" {
		t.Skip("PODSYNC_REPLACE_KUBELET and PODSYNC_REPLACE_NODE are not set")
	}
	r := &replaced{rig: newRig(t), folder: t.TempDir()}
	r.runtime = r.dial()
	r.admit()
	r.run(kubelet)
	r.furnish()
	r.want("the pods of the kubelet", func() bool { return r.serving(2) && r.ended("once") && r.restarted("twice") && r.static() })
	r.replaceBy(node, "green")
	r.replaceBy(kubelet, "blue")
	r.replaceBy(node, "red")
}

// want waits for a condition, for minutes because the machine may be busy.
func (r *replaced) want(what string, so func() bool) {
	r.Helper()
	r.wait(3*time.Minute, what, so)
}

// admit lets nodes with the bootstrap token request certificates, as kubeadm does.
func (r *replaced) admit() {
	r.Helper()
	group := "system:bootstrappers:kubeadm:default-node-token"
	must.Get(r.kube.CoreV1().Secrets("kube-system").Create(r.Context(), &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + tokenID}, Type: v1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": tokenID, "token-secret": tokenSecret, "usage-bootstrap-authentication": "true", "auth-extra-groups": group,
		},
	}, metav1.CreateOptions{}))(r)
	for _, role := range []string{"system:node-bootstrapper", "system:certificates.k8s.io:certificatesigningrequests:nodeclient"} {
		must.Get(r.kube.RbacV1().ClusterRoleBindings().Create(r.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "kubeadm-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
		}, metav1.CreateOptions{}))(r)
	}
}

// run starts an agent as the drop-in of kubeadm does, and waits until the Node is ready by it.
func (r *replaced) run(program string) {
	r.Helper()
	at := filepath.Join(r.dir, "kubeadm")
	text := must.Get(os.ReadFile(filepath.Join(at, "kubeadm-flags.env")))(r)
	_, flags, _ := strings.Cut(string(text), "=")
	root := filepath.Join(r.dir, "disk", "kubelet")
	args := append([]string{
		"--bootstrap-kubeconfig=" + filepath.Join(at, "bootstrap-kubelet.conf"), "--kubeconfig=" + filepath.Join(at, "kubelet.conf"),
		"--config=" + filepath.Join(at, "config.yaml"), "--root-dir=" + root, "--cert-dir=" + filepath.Join(root, "pki"),
	}, strings.Fields(strings.Trim(strings.TrimSpace(flags), `"`))...)
	if program == os.Getenv("PODSYNC_REPLACE_NODE") {
		args = append(args, "--adopt-kubelet-pods")
	}
	log := must.Get(os.OpenFile(filepath.Join(r.dir, "log", "kubelet.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644))(r)
	defer log.Close()
	c := exec.Command(program, args...)
	c.Stdout, c.Stderr, c.SysProcAttr = log, log, &syscall.SysProcAttr{Setsid: true}
	began := time.Now().Truncate(time.Second)
	must.Do(r, c.Start())
	go func() { _ = c.Wait() }() // reaps the process, so that its exit can be detected
	must.Do(r, os.WriteFile(r.pidFile("kubelet"), []byte(strconv.Itoa(c.Process.Pid)), 0o644))
	r.want("a Node that "+filepath.Base(program)+" has made ready", func() bool {
		node, err := r.kube.CoreV1().Nodes().Get(r.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return false
		}
		for _, c := range node.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue && c.LastHeartbeatTime.After(began) {
				r.Logf("%s %s is ready after %v", filepath.Base(program), node.Status.NodeInfo.KubeletVersion, time.Since(began).Round(time.Second))
				return true
			}
		}
		return false
	})
}

// stop ends the agent as systemd does.
func (r *replaced) stop() {
	r.Helper()
	pid := r.pid("kubelet")
	must.Do(r, syscall.Kill(pid, syscall.SIGTERM))
	r.wait(time.Minute, "the end of the agent", func() bool { return gone(pid) })
}

// replaceBy replaces the agent, compares containers and statuses, and has the new agent update, create and delete pods.
func (r *replaced) replaceBy(program, color string) {
	r.Helper()
	containers, statuses := r.containers(), r.statuses()
	r.stop()
	r.run(program)
	time.Sleep(adoption)
	name := filepath.Base(program)
	r.same(name+": containers in the runtime", containers, r.containers())
	r.same(name+": containers in pod statuses", statuses, r.statuses())
	r.Logf("%s adopted %d containers", name, len(containers))
	patch := fmt.Appendf(nil, `{"data":{"color":%q}}`, color)
	must.Get(r.kube.CoreV1().ConfigMaps(r.namespace).Patch(r.Context(), "colors", "application/merge-patch+json", patch, metav1.PatchOptions{}))(r)
	r.delete("going")
	r.create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "from-" + color}, Spec: template(r.folder, serving, v1.RestartPolicyAlways).Spec})
	r.want(name+": a new ConfigMap in running containers, a new pod, and the end of a deleted one", func() bool {
		return r.shows(color) && r.isReady("from-"+color) && !r.exists("going") && r.static()
	})
	r.create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "going"}, Spec: template(r.folder, serving, v1.RestartPolicyAlways).Spec})
	r.want(name+": the next pod", func() bool { return r.isReady("going") })
}

func (r *replaced) same(what string, before, after map[string]string) {
	r.Helper()
	for key, was := range before {
		if is := after[key]; is != was {
			r.Errorf("%s: %s was %q and is %q", what, key, was, is)
		}
	}
	for key, is := range after {
		if _, ok := before[key]; !ok {
			r.Errorf("%s: %s is new: %q", what, key, is)
		}
	}
}

// containers returns the sandboxes and containers of the runtime by their IDs.
func (r *replaced) containers() map[string]string {
	r.Helper()
	all := map[string]string{}
	label := map[string]string{"io.kubernetes.pod.namespace": r.namespace}
	sandboxes := must.Get(r.runtime.ListPodSandbox(r.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: label}}))(r)
	for _, s := range sandboxes.GetItems() {
		if isDerived(s.Metadata.GetName()) {
			continue
		}
		all["sandbox "+s.Id] = fmt.Sprint(s.Metadata.GetName(), " ", s.State)
	}
	containers := must.Get(r.runtime.ListContainers(r.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: label}}))(r)
	for _, c := range containers.GetContainers() {
		if isDerived(c.Labels["io.kubernetes.pod.name"]) {
			continue
		}
		all["container "+c.Id] = fmt.Sprint(c.Labels["io.kubernetes.pod.name"], "/", c.Metadata.GetName(), " ", c.State, " attempt ", c.Metadata.GetAttempt())
	}
	return all
}

// statuses returns the ID, the restart count and the readiness of each container in the API server.
func (r *replaced) statuses() map[string]string {
	r.Helper()
	all := map[string]string{}
	for _, p := range r.pods() {
		if isDerived(p.Name) {
			continue
		}
		for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
			for _, c := range list {
				all[p.Name+" "+string(p.UID)+" "+c.Name] = fmt.Sprint(c.ContainerID, " restarts ", c.RestartCount, " ready ", c.Ready, " phase ", p.Status.Phase)
			}
		}
	}
	return all
}

// furnish creates a Deployment with containers of all kinds, static pods, a pod that has ended, one whose container has
// restarted, and one that is deleted later.
func (r *replaced) furnish() {
	r.Helper()
	must.Get(r.kube.CoreV1().ConfigMaps(r.namespace).Create(r.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "colors"}, Data: map[string]string{"color": "white"}}, metav1.CreateOptions{}))(r)
	always := v1.ContainerRestartPolicyAlways
	web := template(r.folder, "trap 'exit 0' TERM; while true; do cp /config/color /runs/color.$POD_UID; sleep 1; done", v1.RestartPolicyAlways)
	web.Labels = map[string]string{"of": "web"}
	web.Spec.Volumes = append(web.Spec.Volumes,
		v1.Volume{Name: "config", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "colors"}}}},
		v1.Volume{Name: "memory", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}})
	web.Spec.InitContainers = []v1.Container{
		{Name: "first", Image: image(), Command: []string{"true"}},
		{Name: "beside", Image: image(), RestartPolicy: &always, Command: []string{"sh", "-c", serving}},
	}
	app := &web.Spec.Containers[0]
	app.VolumeMounts = append(app.VolumeMounts, v1.VolumeMount{Name: "config", MountPath: "/config"}, v1.VolumeMount{Name: "memory", MountPath: "/memory"})
	check := v1.Probe{PeriodSeconds: 2, TimeoutSeconds: 60, FailureThreshold: 10, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"test", "-e", "/config/color"}}}}
	app.ReadinessProbe, app.LivenessProbe, app.StartupProbe = &check, &check, &check
	app.Resources = v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("10m"), v1.ResourceMemory: resource.MustParse("16Mi")},
		Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")},
	}
	must.Get(r.kube.AppsV1().Deployments(r.namespace).Create(r.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: web.Labels}, Template: web},
	}, metav1.CreateOptions{}))(r)
	for name, pod := range map[string]v1.PodTemplateSpec{
		"going": template(r.folder, serving, v1.RestartPolicyAlways),
		"once":  template(r.folder, "exit 0", v1.RestartPolicyNever),
		"twice": template(r.folder, `[ $(grep -c ran /runs/$POD_UID) -gt 1 ] || exit 1; `+serving, v1.RestartPolicyAlways),
	} {
		r.create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: pod.Spec})
	}
	for name, uid := range map[string]string{"fixed": "uid: 7d6f7804-0000-4fb2-923e-99b13cf82e23", derived: ""} {
		manifest := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: %s, %s}\nspec:\n  containers: [{name: app, image: %q, command: [sh, -c, %q]}]\n", name, r.namespace, uid, image(), serving)
		path := filepath.Join(r.dir, "kubeadm", "manifests", name+".yaml")
		must.Do(r, os.WriteFile(path, []byte(manifest), 0o644))
		r.Cleanup(func() { _ = os.Remove(path) })
	}
}

// derived is the name of the static pod whose manifest has no UID. A kubelet derives it from its internal types, so that
// each agent replaces this pod by its own; the others are adopted.
const derived = "derived"

func isDerived(pod string) bool { return pod == derived+"-"+nodeName }

func (r *replaced) byName() map[string]*v1.Pod {
	r.Helper()
	all := map[string]*v1.Pod{}
	for _, p := range r.pods() {
		all[p.Name] = &p
	}
	return all
}

func (r *replaced) exists(name string) bool { return r.byName()[name] != nil }

func (r *replaced) isReady(name string) bool {
	p := r.byName()[name]
	return p != nil && ready(p)
}

// static reports whether the mirrors of the static pods are ready.
func (r *replaced) static() bool {
	return r.isReady("fixed-"+nodeName) && r.isReady(derived+"-"+nodeName)
}

func (r *replaced) ended(name string) bool {
	p := r.byName()[name]
	return p != nil && p.Status.Phase == v1.PodSucceeded
}

// restarted reports whether a pod is ready after one restart.
func (r *replaced) restarted(name string) bool {
	p := r.byName()[name]
	return p != nil && ready(p) && p.Status.ContainerStatuses[0].RestartCount == 1
}

// web returns the pods of the Deployment that are ready.
func (r *replaced) web() map[string]*v1.Pod {
	all := r.byName()
	maps.DeleteFunc(all, func(_ string, p *v1.Pod) bool { return p.Labels["of"] != "web" || !ready(p) })
	return all
}

func (r *replaced) serving(replicas int) bool { return len(r.web()) == replicas }

// shows reports whether the containers of the Deployment see that content of the ConfigMap.
func (r *replaced) shows(color string) bool {
	web := r.web()
	for _, p := range web {
		if text, err := os.ReadFile(filepath.Join(r.folder, "color."+string(p.UID))); err != nil || string(text) != color {
			return false
		}
	}
	return len(web) == 2
}

package testnode

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
)

// Forever is a script that runs until it receives SIGTERM.
const Forever = "trap 'exit 0' TERM; sleep infinity & wait"

// Pod returns a pod of a source. Its container app runs a script, and has 5 s to stop.
func Pod(source, name, uid, script string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(uid),
			Annotations: map[string]string{runtime.AnnotationConfigSource: source},
		},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(5)),
			Containers: []v1.Container{{
				Name: "app", Image: Image, ImagePullPolicy: v1.PullIfNotPresent,
				Command: []string{"sh", "-c", script},
			}},
		},
	}
}

// SandboxConfig returns the configuration for a pod of the owner, whose name is its UID.
func (n *Node) SandboxConfig(uid string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:    &runtimeapi.PodSandboxMetadata{Name: uid, Namespace: "ns", Uid: uid},
		Labels:      n.Owner.Mark(map[string]string{runtime.LabelPodName: uid, runtime.LabelPodNamespace: "ns", runtime.LabelPodUID: uid}),
		Annotations: map[string]string{runtime.AnnotationConfigSource: "file"},
	}
}

// RunSandbox runs a sandbox of a pod. Containers of that pod that are started later run in it.
func (n *Node) RunSandbox(uid string) {
	n.Helper()
	resp, err := n.Client.RunPodSandbox(n.Context(), &runtimeapi.RunPodSandboxRequest{Config: n.SandboxConfig(uid)})
	n.Must(err)
	n.SandboxIDs[uid] = resp.GetPodSandboxId()
}

// Start starts a container in the pod's last sandbox, and returns its ID.
func (n *Node) Start(uid, name string, attempt uint32, script string) string {
	n.Helper()
	image := &runtimeapi.ImageSpec{Image: Image}
	_, err := n.Client.PullImage(n.Context(), &runtimeapi.PullImageRequest{Image: image})
	n.Must(err)
	config := n.SandboxConfig(uid)
	resp, err := n.Client.CreateContainer(n.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: n.SandboxIDs[uid], SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt},
			Image:    image, Labels: config.Labels, Command: []string{"sh", "-c", script},
		},
	})
	n.Must(err)
	_, err = n.Client.StartContainer(n.Context(), &runtimeapi.StartContainerRequest{ContainerId: resp.GetContainerId()})
	n.Must(err)
	return resp.GetContainerId()
}

// RunPod runs a pod whose containers sleep, and returns their IDs.
func (n *Node) RunPod(uid string, containers ...string) (ids []string) {
	n.Helper()
	n.RunSandbox(uid)
	for _, name := range containers {
		ids = append(ids, n.Start(uid, name, 0, "sleep infinity"))
	}
	return ids
}

package poddir_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/poddir"
)

func Example() {
	root, err := os.MkdirTemp("", "agent")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	dirs, err := poddir.New(poddir.Config{Root: root})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "8c1f"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", TerminationMessagePath: "/dev/termination-log"}}},
	}
	ctx := context.Background()
	request := container.MountRequest{Pod: pod, Container: &pod.Spec.Containers[0], PodIPs: []string{"10.0.0.7"}}
	mounts, err := dirs.Mounts(ctx, request)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range mounts.Mounts {
		below, _ := filepath.Rel(root, m.HostPath)
		fmt.Println(m.ContainerPath, "is", filepath.ToSlash(below))
	}

	// The container runs, and says why it ends.
	_ = os.WriteFile(mounts.Mounts[1].HostPath, []byte("no configuration"), 0o600)
	message, err := dirs.TerminationMessage(pod, &runtime.ContainerStatus{Name: "app", State: runtime.ContainerExited, ExitCode: 1})
	fmt.Println(message, err)

	fmt.Println(dirs.RemovePod(ctx, pod.UID))
	// Output:
	// /etc/hosts is pods/8c1f/containers/app/etc-hosts
	// /dev/termination-log is pods/8c1f/containers/app/00000000
	// no configuration <nil>
	// <nil>
}

package local_test

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/poddir"
	"github.com/podsync/podsync/syncpod/volume/local"
)

func Example() {
	root, err := os.MkdirTemp("", "agent")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	volumes, err := local.New(local.Config{
		ConfigMaps: env.ConfigMapsFunc(func(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
			return &v1.ConfigMap{Data: map[string]string{"greeting": "hello from " + namespace + "/" + name}}, nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	dirs, err := poddir.New(poddir.Config{Root: root, Volumes: volumes})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "8c1f"},
		Spec: v1.PodSpec{
			Volumes: []v1.Volume{{Name: "conf", VolumeSource: v1.VolumeSource{
				ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "texts"}},
			}}},
			Containers: []v1.Container{{Name: "app", VolumeMounts: []v1.VolumeMount{{Name: "conf", MountPath: "/etc/app"}}}},
		},
	}
	ctx := context.Background()
	if _, err := dirs.PreparePod(ctx, pod); err != nil {
		fmt.Println(err)
		return
	}
	mounts, err := dirs.Mounts(ctx, container.MountRequest{Pod: pod, Container: &pod.Spec.Containers[0]})
	if err != nil {
		fmt.Println(err)
		return
	}
	m := mounts.Mounts[0]
	text, err := os.ReadFile(m.HostPath + "/greeting")
	fmt.Println(m.ContainerPath, m.Readonly, string(text), err)
	// Output:
	// /etc/app true hello from shop/texts <nil>
}

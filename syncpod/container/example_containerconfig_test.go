package container_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
)

func Example() {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "7d0f"},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name:    "nginx",
			Image:   "nginx:1.29",
			Command: []string{"nginx", "-p", "$(PREFIX)"},
			Env:     []v1.EnvVar{{Name: "PREFIX", Value: "/srv"}},
			Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m")},
				Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")},
			},
		}}},
	}
	vars, err := env.MakeEnvironment(context.Background(), env.Input{Pod: pod, Container: "nginx"}, env.Sources{})
	if err != nil {
		fmt.Println(err)
		return
	}
	config, err := container.GenerateContainerConfig(container.Input{
		Pod:     pod,
		Name:    "nginx",
		Attempt: 1,
		Image:   container.Image{Ref: "sha256:9f1a"},
		Env:     vars,
		Node:    container.Node{MemoryBytes: 8 << 30},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(config.Command)
	fmt.Println(config.LogPath)
	fmt.Println(config.Image.Image, "for", config.Image.UserSpecifiedImage)
	fmt.Println(config.Linux.Resources.CpuShares, config.Linux.Resources.MemoryLimitInBytes)
	// Output:
	// [nginx -p /srv]
	// nginx/1.log
	// sha256:9f1a for nginx:1.29
	// 512 67108864
}

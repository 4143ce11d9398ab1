package embedder

import (
	"context"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
)

// SandboxConfig returns what RunPodSandbox needs.
func SandboxConfig(pod *v1.Pod, node sandbox.NodeDNS) (*runtimeapi.PodSandboxConfig, error) {
	dns, _, err := sandbox.GetPodDNS(pod, node)
	if err != nil {
		return nil, err
	}
	return sandbox.GeneratePodSandboxConfig(sandbox.Input{Pod: pod, DNS: dns, ClusterDomain: node.ClusterDomain, Labels: cri.Owner{}.Mark(nil)})
}

// ContainerConfig returns what CreateContainer needs: the configuration with the environment.
func ContainerConfig(ctx context.Context, pod *v1.Pod, name, imageID string, node container.Node, from env.Sources) (*runtimeapi.ContainerConfig, error) {
	vars, err := env.MakeEnvironment(ctx, env.Input{Pod: pod, Container: name}, from)
	if err != nil {
		return nil, err
	}
	return container.GenerateContainerConfig(container.Input{
		Pod: pod, Name: name, Node: node, Image: container.Image{Ref: imageID}, Env: vars, Labels: cri.Owner{}.Mark(nil),
	})
}

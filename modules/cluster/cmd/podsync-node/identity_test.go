package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// The flags that kubeadm and cloud providers set for a kubelet.
func TestIdentityFlags(t *testing.T) {
	o := must.Get(parse([]string{
		"--config=c", "--kubeconfig=k", "--config-dir=/etc/kubelet.d", "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
		"--pod-infra-container-image=registry.k8s.io/pause:3.10.1", "--cloud-provider=external", "--provider-id=aws:///eu/i-1",
		"--node-labels=tier=edge,node.kubernetes.io/pool=a, topology.kubernetes.io/zone=z1,empty=",
		"--register-with-taints=dedicated=gpu:NoSchedule,node.kubernetes.io/new:NoExecute",
	}, new(bytes.Buffer)))(t)
	labels := map[string]string{"tier": "edge", "node.kubernetes.io/pool": "a", "topology.kubernetes.io/zone": "z1", "empty": ""}
	if !o.externalCloud || !maps.Equal(o.labels, labels) {
		t.Errorf("external %v, labels %v, want %v", o.externalCloud, o.labels, labels)
	}
	c := &kubelet.KubeletConfiguration{ContainerRuntimeEndpoint: "file", RegisterWithTaints: []v1.Taint{{Key: "file"}}}
	sources := o.sources()
	sources.Flags(c)
	taints := []v1.Taint{{Key: "dedicated", Value: "gpu", Effect: v1.TaintEffectNoSchedule}, {Key: "node.kubernetes.io/new", Effect: v1.TaintEffectNoExecute}}
	if c.ContainerRuntimeEndpoint != "unix:///run/containerd/containerd.sock" || c.ProviderID != "aws:///eu/i-1" || !slices.Equal(c.RegisterWithTaints, taints) || sources.DropIns != "/etc/kubelet.d" {
		t.Errorf("%+v, drop-ins %s", c, sources.DropIns)
	}
}

// Flags that are not set leave the configuration unchanged.
func TestIdentityFlagsThatAreNotGiven(t *testing.T) {
	o := must.Get(parse([]string{"--config=c", "--kubeconfig=k"}, new(bytes.Buffer)))(t)
	c := &kubelet.KubeletConfiguration{ContainerRuntimeEndpoint: "file", ProviderID: "file", RegisterWithTaints: []v1.Taint{{Key: "file"}}}
	o.sources().Flags(c)
	if c.ContainerRuntimeEndpoint != "file" || c.ProviderID != "file" || len(c.RegisterWithTaints) != 1 || o.externalCloud {
		t.Errorf("%+v", c)
	}
}

func TestIdentityFlagsThatAreWrong(t *testing.T) {
	for flag, want := range map[string]string{
		"--cloud-provider=aws": "external",
		"--node-labels=a":      "key=value",
		"--node-labels=a=b c":  "a=b c",
		"--node-labels=node-role.kubernetes.io/control-plane=": "may not give itself",
		"--node-labels=kubernetes.io/some=":                    "may not give itself",
		"--node-labels=x.k8s.io/some=":                         "may not give itself",
		"--register-with-taints=a=b":                           "key=value:effect",
		"--register-with-taints=a=b:Never":                     "Never",
		"--register-with-taints=a b:NoSchedule":                "a b",
		"--register-with-taints=a=1:NoSchedule,a=2:NoSchedule": "two taints",
	} {
		if _, err := parse([]string{"--config=c", "--kubeconfig=k", flag}, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", flag, err, want)
		}
	}
}

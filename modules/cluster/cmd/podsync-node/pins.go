package main

import (
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/modules/cluster/config"
	"github.com/podsync/podsync/modules/cluster/node"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/pinning"
)

// pinsOf creates the part that gives containers exclusive CPUs and memory of NUMA nodes.
func (a *agent) pinsOf(capacity v1.ResourceList) (*pinning.Manager, error) {
	reserved, err := a.reservedMemory(capacity)
	if err != nil {
		return nil, err
	}
	c, err := config.Pinning(a.kubelet, os.DirFS("/sys"), reserved)
	if err != nil {
		return nil, err
	}
	c.State, c.Log = filepath.Join(a.root, "pinning.json"), a.log
	return pinning.New(c)
}

// reservedMemory returns the memory and the huge pages that the node keeps from pods.
func (a *agent) reservedMemory(capacity v1.ResourceList) (v1.ResourceList, error) {
	system, err := config.Amounts("systemReserved", a.kubelet.SystemReserved)
	if err != nil {
		return nil, err
	}
	kube, err := config.Amounts("kubeReserved", a.kubelet.KubeReserved)
	if err != nil {
		return nil, err
	}
	rules, err := eviction.ParsePolicy(a.policy)
	if err != nil {
		return nil, err
	}
	all := v1.ResourceList{}
	for _, list := range []v1.ResourceList{system, kube, node.Reserved(rules, capacity)} {
		for name, q := range list {
			sum := all[name]
			sum.Add(q)
			all[name] = sum
		}
	}
	return all, nil
}

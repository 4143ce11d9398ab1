package config

import (
	"errors"
	"fmt"
	"io/fs"

	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/syncpod/cpu"
	"github.com/podsync/podsync/syncpod/numamemory"
	"github.com/podsync/podsync/syncpod/pinning"
	"github.com/podsync/podsync/syncpod/topology"
)

// reserveCPUs replaces the reserved CPU time by reservedSystemCPUs, as a kubelet does.
func reserveCPUs(c *kubelet.KubeletConfiguration) error {
	if c.ReservedSystemCPUs == "" {
		return nil
	}
	cpus, err := cpu.ParseSet(c.ReservedSystemCPUs)
	switch {
	case err != nil:
		return fmt.Errorf("reservedSystemCPUs: %w", err)
	case cpus.IsEmpty():
		return errors.New("reservedSystemCPUs has no CPU")
	case c.SystemReservedCgroup != "" || c.KubeReservedCgroup != "":
		return errors.New("reservedSystemCPUs excludes systemReservedCgroup and kubeReservedCgroup")
	}
	for field, amount := range map[*map[string]string]int{&c.SystemReserved: cpus.Len(), &c.KubeReserved: 0} {
		if *field == nil {
			*field = map[string]string{}
		}
		(*field)[string(v1.ResourceCPU)] = fmt.Sprint(amount)
	}
	return nil
}

// Pinning returns the policies for CPUs, memory and topology on a machine, from the fields cpuManagerPolicy, cpuManagerPolicyOptions,
// reservedSystemCPUs, memoryManagerPolicy, reservedMemory, topologyManagerPolicy, topologyManagerScope and topologyManagerPolicyOptions. sys is the
// machine's sysfs. It is read only if a policy needs it. reserved is what the node keeps from pods.
func Pinning(c *kubelet.KubeletConfiguration, sys fs.FS, reserved v1.ResourceList) (p pinning.Config, err error) {
	p.CPUs.Policy = cpu.Policy(c.CPUManagerPolicy)
	if p.CPUs.Options, err = cpu.ParseOptions(c.CPUManagerPolicyOptions); err != nil {
		return p, fmt.Errorf("cpuManagerPolicyOptions: %w", err)
	}
	p.Topology, err = topology.Config{Policy: c.TopologyManagerPolicy, Scope: c.TopologyManagerScope}.ParseOptions(c.TopologyManagerPolicyOptions)
	if err != nil {
		return p, err
	}
	p.Memory.Policy = c.MemoryManagerPolicy
	aligns := p.Topology.Policy != "" && p.Topology.Policy != topology.PolicyNone
	if p.CPUs.Policy == cpu.Static || aligns {
		if p.CPUs.Topology, err = cpu.Read(sys); err != nil {
			return p, fmt.Errorf("cpuManagerPolicy, topologyManagerPolicy: %w", err)
		}
	}
	if p.CPUs.Policy == cpu.Static {
		if p.CPUs.Reserved, err = cpu.ParseSet(c.ReservedSystemCPUs); err != nil {
			return p, fmt.Errorf("reservedSystemCPUs: %w", err)
		}
		if p.CPUs.ReservedCount, err = reservedCount(c); err != nil {
			return p, err
		}
	}
	if p.Memory.Policy == numamemory.PolicyStatic {
		if p.Memory, err = memory(c, sys, reserved); err != nil {
			return p, err
		}
	} else if len(c.ReservedMemory) > 0 {
		return p, errors.New("reservedMemory requires memoryManagerPolicy Static")
	}
	if p.Topology.PreferClosest {
		var nodes topology.Mask
		for _, one := range p.CPUs.Topology.CPUs {
			nodes |= 1 << one.Node
		}
		if p.Distances, err = topology.ReadDistances(sys, nodes); err != nil {
			return p, fmt.Errorf("topologyManagerPolicyOptions: %w", err)
		}
	}
	return p, nil
}

// reservedCount returns the reserved CPU time in whole CPUs. The policy static needs some, or pods could have all CPUs alone.
func reservedCount(c *kubelet.KubeletConfiguration) (int, error) {
	system, err := Amounts("systemReserved", c.SystemReserved)
	if err != nil {
		return 0, err
	}
	kube, err := Amounts("kubeReserved", c.KubeReserved)
	if err != nil {
		return 0, err
	}
	milli := system.Cpu().MilliValue() + kube.Cpu().MilliValue()
	if milli == 0 {
		return 0, errors.New("cpuManagerPolicy static requires systemReserved, kubeReserved or reservedSystemCPUs to reserve CPU time")
	}
	return int((milli + 999) / 1000), nil
}

func memory(c *kubelet.KubeletConfiguration, sys fs.FS, reserved v1.ResourceList) (m numamemory.Config, err error) {
	m = numamemory.Config{Policy: c.MemoryManagerPolicy, Reserved: reserved}
	if m.Nodes, err = numamemory.Read(sys); err != nil {
		return m, fmt.Errorf("memoryManagerPolicy: %w", err)
	}
	at := map[int32]int{}
	for i, n := range m.Nodes {
		at[int32(n.ID)] = i
	}
	for _, r := range c.ReservedMemory {
		i, ok := at[r.NumaNode]
		if !ok {
			return m, fmt.Errorf("reservedMemory: the machine has no NUMA node %d", r.NumaNode)
		}
		for name, q := range r.Limits {
			if q.Sign() < 0 {
				return m, fmt.Errorf("reservedMemory: NUMA node %d: %s is %s, want an amount that is not negative", r.NumaNode, name, q.String())
			}
			if m.Nodes[i].Reserved == nil {
				m.Nodes[i].Reserved = map[v1.ResourceName]uint64{}
			}
			if _, twice := m.Nodes[i].Reserved[name]; twice {
				return m, fmt.Errorf("reservedMemory: NUMA node %d has %s twice", r.NumaNode, name)
			}
			m.Nodes[i].Reserved[name] = uint64(q.Value())
		}
	}
	return m, nil
}

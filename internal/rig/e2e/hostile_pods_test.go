//go:build linux

package e2e

import (
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// A level is a level of Pod Security: what a pod may do.
type level string

const (
	restricted level = "restricted"
	baseline   level = "baseline"
)

// limitOfStorage is less than an attack writes, and more than an honest pod writes.
const limitOfStorage = "8Mi"

// pod returns a pod of the level without containers. Its volumes are an emptyDir on disk, one in memory, and the directory
// of the program that its containers run, which a pod of the level may not mount by itself.
func (s *siege) pod(name string, l level) *v1.Pod {
	full := fmt.Sprintf("%s-%s-%d", name, l, s.made.Add(1))
	p := &v1.Pod{Spec: v1.PodSpec{
		RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(1)),
		Volumes: []v1.Volume{
			{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
			{Name: "memory", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
			hostPath("program", s.programs, v1.HostPathDirectory),
		},
		SecurityContext: &v1.PodSecurityContext{},
	}}
	p.Namespace, p.Name, p.UID = "hostile", full, types.UID(fmt.Sprintf("%s-%d", full, s.began.UnixNano()))
	if l == restricted {
		p.Spec.SecurityContext = &v1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1000)),
			SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
		}
	}
	return p
}

func hostPath(name, path string, t v1.HostPathType) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &t}}}
}

// attacker returns a container that runs an attack with a share of a processor and some memory.
func attacker(l level, name string, attack ...string) v1.Container {
	c := v1.Container{
		Name: name, Image: image, ImagePullPolicy: v1.PullNever, Command: append([]string{"/program/hostile", "attack"}, attack...),
		TerminationMessagePath: "/dev/termination-log",
		Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("10m"), v1.ResourceMemory: resource.MustParse("16Mi")},
			Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("150m"), v1.ResourceMemory: resource.MustParse("96Mi")},
		},
		VolumeMounts: []v1.VolumeMount{
			{Name: "scratch", MountPath: "/scratch"}, {Name: "memory", MountPath: "/memory"}, {Name: "program", MountPath: "/program", ReadOnly: true},
		},
	}
	if l == restricted {
		c.SecurityContext = &v1.SecurityContext{
			AllowPrivilegeEscalation: new(false), Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}},
		}
	}
	return c
}

// limitVolume gives the emptyDir on disk a limit.
func limitVolume(_ *siege, _ level, p *v1.Pod) {
	limit := resource.MustParse(limitOfStorage)
	p.Spec.Volumes[0].EmptyDir.SizeLimit = &limit
}

// limitStorage gives the container a limit of storage.
func limitStorage(_ *siege, _ level, p *v1.Pod) {
	p.Spec.Containers[0].Resources.Limits[v1.ResourceEphemeralStorage] = resource.MustParse(limitOfStorage)
}

// spies adds containers that read the volume by paths that another container changes.
func spies(_ *siege, l level, p *v1.Pod) {
	for i, sub := range []string{"sub", "sub/inner", "sub", "sub/new/deep", "sub", "sub/secret"} {
		c := attacker(l, fmt.Sprint("spy", i), "spy", "/spied")
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "scratch", MountPath: "/spied", SubPath: sub})
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
}

// shared gives the container a directory of the node, which it fills with links, and time to do so.
func shared(s *siege, _ level, p *v1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes, hostPath("host", s.shared, v1.HostPathDirectory))
	c := &p.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "host", MountPath: "/host"})
	c.Resources.Limits[v1.ResourceCPU] = resource.MustParse("600m")
}

// below returns a pod with many volumes below the directory that another pod changes. The last one does not exist, so
// that no container of the pod is started.
func (s *siege) below() *v1.Pod {
	p := s.pod("below", baseline)
	p.Spec.Containers = []v1.Container{attacker(baseline, "app", "deaf")}
	add := func(name, path string, t v1.HostPathType) {
		p.Spec.Volumes = append(p.Spec.Volumes, hostPath(name, filepath.Join(s.shared, path), t))
		c := &p.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	for i := range 100 {
		add(fmt.Sprint("host", i), "sub/inner", v1.HostPathDirectoryOrCreate)
	}
	add("none", "none", v1.HostPathFile)
	return p
}

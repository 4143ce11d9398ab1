package eviction

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/internal/podresources"
	"github.com/podsync/podsync/runtime"
)

// HasStorageLimits reports whether a pod has a limit on its disk usage.
func HasStorageLimits(pod *v1.Pod) bool {
	if pod == nil {
		return false
	}
	for i := range pod.Spec.Volumes {
		if e := pod.Spec.Volumes[i].EmptyDir; e != nil && e.SizeLimit != nil && e.SizeLimit.Sign() > 0 {
			return true
		}
	}
	return podresources.Total(&pod.Spec, podresources.Limits, v1.ResourceEphemeralStorage) != nil
}

// exceeding returns the pods that exceed their own limits. Unknown usage exceeds no limit, but
// usage that the pod has made unmeasurable exceeds each.
func exceeding(s *State) []Eviction {
	var list []Eviction
	for _, p := range s.Pods {
		if p.Usage == nil || runtime.IsCritical(p.Pod) || slices.Contains(s.Ending, p.Pod.UID) {
			continue
		}
		for _, check := range []func(Candidate, Layout) (Signal, string){emptyDirs, wholePod, singleContainers} {
			if signal, message := check(p, s.Layout); message != "" {
				list = append(list, Eviction{Pod: p.Pod, Signal: signal, GraceSeconds: immediately, Message: message})
				break
			}
		}
	}
	return list
}

// emptyDirs checks emptyDir.sizeLimit.
func emptyDirs(p Candidate, _ Layout) (Signal, string) {
	for i := range p.Pod.Spec.Volumes {
		v := &p.Pod.Spec.Volumes[i]
		if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
			continue
		}
		used, limit := p.Usage.volume(v.Name), *v.EmptyDir.SizeLimit // a copy: String writes to it, and others may read the pod
		if used.Unmeasurable {
			return EmptyDirLimit, fmt.Sprintf("Usage of EmptyDir volume %q cannot be measured, which exceeds the limit %q. ", v.Name, limit.String())
		}
		if beyond(used.Bytes, limit) {
			return EmptyDirLimit, fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, limit.String())
		}
	}
	return "", ""
}

// wholePod checks the containers' limits together against the pod's total disk usage.
func wholePod(p Candidate, _ Layout) (Signal, string) {
	limit := podresources.Total(&p.Pod.Spec, podresources.Limits, v1.ResourceEphemeralStorage)
	if limit == nil || limit.IsZero() {
		return "", ""
	}
	all := limit.DeepCopy()
	all.Add(p.Pod.Spec.Overhead[v1.ResourceEphemeralStorage])
	used, unmeasurable := p.Usage.ephemeral(p.Pod)
	if unmeasurable != "" {
		return PodLimit, fmt.Sprintf("Pod ephemeral local storage usage of %s cannot be measured, which exceeds the total limit of containers %s. ", unmeasurable, all.String())
	}
	if beyond(&used, all) {
		return PodLimit, fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", all.String())
	}
	return "", ""
}

// ephemeral returns the pod's total disk usage, and which part could not be measured, "" if all were measured.
// hostPath volumes do not count.
func (u *Usage) ephemeral(pod *v1.Pod) (total uint64, unmeasurable string) {
	add := func(d DiskUsage, what string) {
		total = plus(total, d.Bytes)
		if d.Unmeasurable && unmeasurable == "" {
			unmeasurable = what
		}
	}
	for i := range u.Containers {
		add(u.Containers[i].RootFS, "container "+u.Containers[i].Name)
		add(u.Containers[i].Logs, "the logs of container "+u.Containers[i].Name)
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; OnDisk(v) {
			add(u.volume(v.Name), fmt.Sprintf("volume %q", v.Name))
		}
	}
	add(u.Files, "its own files")
	return total, unmeasurable
}

// singleContainers checks each container's limit. Its writable layer counts only if the node has
// a single disk, as in a kubelet.
func singleContainers(p Candidate, on Layout) (Signal, string) {
	for i := range p.Usage.Containers {
		c := &p.Usage.Containers[i]
		limit, ok := limitOf(p.Pod, c.Name)
		if !ok || limit.IsZero() {
			continue
		}
		used := plus(0, c.Logs.Bytes)
		if on == OneDisk {
			used = plus(used, c.RootFS.Bytes)
		}
		if beyond(&used, limit) {
			return ContainerLimit, fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())
		}
	}
	return "", ""
}

func beyond(used *uint64, limit resource.Quantity) bool {
	u := quantity(v1.ResourceEphemeralStorage, known(used))
	return used != nil && u.Cmp(limit) > 0
}

// spec returns the regular or init container with that name, nil if there is none.
func spec(pod *v1.Pod, name string) *v1.Container {
	for _, list := range [...][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

func requestOf(pod *v1.Pod, container string, name v1.ResourceName) (resource.Quantity, bool) {
	c := spec(pod, container)
	if c == nil {
		return resource.Quantity{}, false
	}
	return c.Resources.Requests[name], true
}

func limitOf(pod *v1.Pod, container string) (resource.Quantity, bool) {
	c := spec(pod, container)
	if c == nil {
		return resource.Quantity{}, false
	}
	limit, ok := c.Resources.Limits[v1.ResourceEphemeralStorage]
	return limit, ok
}

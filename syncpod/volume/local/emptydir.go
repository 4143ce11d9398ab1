package local

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/internal/podresources"
)

// emptyDirMode allows any user's processes to use the volume.
const emptyDirMode = 0o777

// emptyDir creates the directory if it does not exist. Files and containers' changes are kept.
func (v *Volumes) emptyDir(source *v1.EmptyDirVolumeSource, path string, pod *v1.Pod) error {
	o, err := v.ownersOf(pod)
	if err != nil {
		return err
	}
	dir := directory{path, o.dir(emptyDirMode)}
	if source.Medium == v1.StorageMediumDefault {
		return dir.make()
	}
	in, err := v.memoryOf(source, &pod.Spec)
	if err != nil {
		return err
	}
	if v.config.Unprivileged {
		return fmt.Errorf("emptyDir.medium %s needs the right to mount, and the agent does without it", source.Medium)
	}
	return dir.makeInMemory(in)
}

// memory is a file system in memory: a tmpfs, or a hugetlbfs.
type memory struct {
	// size limits the bytes, 0 for the kernel's default: for a tmpfs half the node's memory.
	size int64
	// pages is the huge page size in a hugetlbfs in bytes, 0 for a tmpfs.
	pages int64
}

// memoryOf returns the file system for an emptyDir that is not on the disk.
func (v *Volumes) memoryOf(source *v1.EmptyDirVolumeSource, pod *v1.PodSpec) (memory, error) {
	switch medium := source.Medium; {
	case medium == v1.StorageMediumMemory:
		return memory{size: v.memorySize(source.SizeLimit, pod)}, nil
	case medium == v1.StorageMediumHugePages:
		pages, err := onlyPageSize(pod)
		return memory{pages: pages}, err
	case strings.HasPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix)):
		pages, err := pageSizeOf(medium, pod)
		return memory{pages: pages}, err
	}
	return memory{}, fmt.Errorf("emptyDir.medium %q is not supported", source.Medium)
}

// memorySize returns an emptyDir's size in memory: its limit or the containers' memory limits together, whichever is less
// (kubernetes #94444). A pod without memory limits may use the node's allocatable memory. It returns 0 if none is known.
func (v *Volumes) memorySize(limit *resource.Quantity, pod *v1.PodSpec) (size int64) {
	size = v.config.Allocatable.Memory().Value()
	for _, other := range []*resource.Quantity{podresources.Total(pod, podresources.Limits, v1.ResourceMemory), limit} {
		if other != nil && other.Sign() > 0 && (size == 0 || other.Value() < size) {
			size = other.Value()
		}
	}
	return size
}

// onlyPageSize returns the huge page size that the containers in a pod request.
func onlyPageSize(pod *v1.PodSpec) (size int64, err error) {
	for _, requested := range pageSizes(pod) {
		if size != 0 && requested != size {
			return 0, fmt.Errorf("emptyDir.medium %s is ambiguous: the containers request huge pages of several sizes", v1.StorageMediumHugePages)
		}
		size = requested
	}
	if size == 0 {
		return 0, fmt.Errorf("emptyDir.medium %s needs a container that requests huge pages", v1.StorageMediumHugePages)
	}
	return size, nil
}

// pageSizeOf returns the huge page size for a medium such as HugePages-2Mi.
func pageSizeOf(medium v1.StorageMedium, pod *v1.PodSpec) (int64, error) {
	text := strings.TrimPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix))
	size, err := resource.ParseQuantity(text)
	if err != nil || size.Sign() <= 0 {
		return 0, fmt.Errorf("emptyDir.medium %q has no valid size of pages", medium)
	}
	for _, requested := range pageSizes(pod) {
		if requested == size.Value() {
			return requested, nil
		}
	}
	return 0, fmt.Errorf("emptyDir.medium %s needs a container that requests huge pages of that size", medium)
}

// pageSizes returns the huge page sizes that containers in a pod, or the pod as a whole, request, in any order.
func pageSizes(pod *v1.PodSpec) (sizes []int64) {
	add := func(r *v1.ResourceRequirements) {
		for _, list := range []v1.ResourceList{r.Requests, r.Limits} {
			for name := range list {
				text, huge := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
				if size, err := resource.ParseQuantity(text); huge && err == nil && size.Sign() > 0 {
					sizes = append(sizes, size.Value())
				}
			}
		}
	}
	for i := range pod.InitContainers {
		add(&pod.InitContainers[i].Resources)
	}
	for i := range pod.Containers {
		add(&pod.Containers[i].Resources)
	}
	if pod.Resources != nil {
		add(pod.Resources)
	}
	return sizes
}

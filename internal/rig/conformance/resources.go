package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/internal/rig/conformance/record"
	"github.com/podsync/podsync/runtime"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// resourcesCase is a random pod with one container, and the container's resources, user and mounts in the status by
// kubelet v1.36.2. The status in the pod is the previously reported one, and its spec has the allocated resources.
type resourcesCase struct {
	record.Container        // its ID has the runtime's type in front
	Name             string `json:"name"`
	Pod              *v1.Pod
	RuntimeResources *runtimeResources
	RuntimeUser      *v1.LinuxContainerUser

	Want *resourcesWant
}

type runtimeResources struct {
	CPURequest, CPULimit, MemoryRequest, MemoryLimit *resource.Quantity
}

type resourcesWant struct {
	Resources          *v1.ResourceRequirements `json:"resources"`
	AllocatedResources v1.ResourceList          `json:"allocatedResources"`
	User               *v1.ContainerUser        `json:"user"`
	VolumeMounts       []v1.VolumeMountStatus   `json:"volumeMounts"`
}

// checkResources compares one recorded line with what podsync reports of the same.
func checkResources(line []byte) (outcome, error) {
	var c resourcesCase
	if err := json.Unmarshal(line, &c); err != nil {
		return outcome{}, fmt.Errorf("resources: %w", err)
	}
	if c.Pod == nil || c.Name == "" || c.Want == nil || len(c.Pod.Spec.Containers) != 1 {
		return outcome{}, errors.New("resources: the line has no name, answer or pod of one container")
	}
	c.addEmptyLists()
	status, err := c.status()
	if err != nil {
		return outcome{}, fmt.Errorf("resources %s: %w", c.Name, err)
	}
	s := apistatus.GeneratePodStatus(apistatus.Input{Pod: c.Pod, Status: status}).ContainerStatuses[0]
	got := &resourcesWant{s.Resources, s.AllocatedResources, s.User, s.VolumeMounts}
	c.Want.normalize()
	got.normalize()
	return outcome{name: c.Name, diff: sideBySide(compareTrees("", jsonTree(c.Want), jsonTree(got)))}, nil
}

// addEmptyLists restores the empty lists of the spec, which JSON has dropped: the kubelet fills in an empty list, but
// not a missing one. The recorded result shows whether a list was empty or missing: allocatedResources is the list
// of requests, and limits are reported only if the spec had a list of limits.
func (c *resourcesCase) addEmptyLists() {
	spec := &c.Pod.Spec.Containers[0].Resources
	if spec.Requests == nil && c.Want.AllocatedResources != nil {
		spec.Requests = v1.ResourceList{}
	}
	if spec.Limits == nil && c.Want.Resources != nil && len(c.Want.Resources.Limits) > 0 {
		spec.Limits = v1.ResourceList{}
	}
}

// status returns the pod's status in the runtime.
func (c *resourcesCase) status() (*runtime.PodStatus, error) {
	spec := &c.Pod.Spec.Containers[0]
	c.Container.Name, c.ID = spec.Name, strings.TrimPrefix(c.ID, "containerd://")
	k, err := c.Container.Status()
	if err != nil {
		return nil, err
	}
	k.Reported = c.RuntimeResources.reported()
	if u := c.RuntimeUser; u != nil {
		k.User = &runtime.ContainerUser{UID: u.UID, GID: u.GID, Groups: u.SupplementalGroups}
	}
	return &runtime.PodStatus{UID: c.Pod.UID, Name: c.Pod.Name, Namespace: c.Pod.Namespace, Containers: []runtime.ContainerStatus{k}}, nil
}

func (r *runtimeResources) reported() *runtime.ReportedResources {
	if r == nil {
		return nil
	}
	return &runtime.ReportedResources{
		CPURequest: amount(r.CPURequest, (*resource.Quantity).MilliValue), CPULimit: amount(r.CPULimit, (*resource.Quantity).MilliValue),
		MemoryRequest: amount(r.MemoryRequest, (*resource.Quantity).Value), MemoryLimit: amount(r.MemoryLimit, (*resource.Quantity).Value),
	}
}

func amount(q *resource.Quantity, in func(*resource.Quantity) int64) *int64 {
	if q == nil {
		return nil
	}
	return new(in(q))
}

// normalize writes amounts in one way: how a quantity is written is not in what a
// runtime reports.
func (w *resourcesWant) normalize() {
	lists := []v1.ResourceList{w.AllocatedResources}
	if w.Resources != nil {
		lists = append(lists, w.Resources.Limits, w.Resources.Requests)
	}
	for _, list := range lists {
		for name, q := range list {
			list[name] = *resource.NewMilliQuantity(q.MilliValue(), resource.DecimalSI)
		}
	}
}

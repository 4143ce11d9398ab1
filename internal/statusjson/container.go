// Package statusjson converts a pod's status to JSON and back, to persist it for a later agent. Files on disks contain the
// names: fields may be added, and none may be renamed.
//
// Resources, users and networks have their names in the tags of package runtime. Containers and
// sandboxes need their own types here: a state is written as a word, a status with an unknown
// word is dropped, and an ID is written as two fields. Package runtime cannot have these names: the
// oldest records contain its ContainerStatus under the names of its Go fields, with a number as the
// state.
package statusjson

import (
	"time"

	"github.com/podsync/podsync/runtime"
)

// A Container is a runtime.ContainerStatus without its state.
type Container struct {
	Name         string                      `json:"name"`
	Runtime      string                      `json:"runtime"`
	ID           string                      `json:"id"`
	SandboxID    string                      `json:"sandboxID,omitempty"`
	Attempt      uint32                      `json:"attempt"`
	SpecHash     uint64                      `json:"specHash,omitempty"`
	CreatedAt    time.Time                   `json:"createdAt,omitzero"`
	StartedAt    time.Time                   `json:"startedAt,omitzero"`
	FinishedAt   time.Time                   `json:"finishedAt,omitzero"`
	ExitCode     int32                       `json:"exitCode"`
	Reason       string                      `json:"reason,omitempty"`
	Message      string                      `json:"message,omitempty"`
	Image        string                      `json:"image,omitempty"`
	ImageID      string                      `json:"imageID,omitempty"`
	ImageRef     string                      `json:"imageRef,omitempty"`
	ImageVolumes string                      `json:"imageVolumes,omitempty"`
	Resources    *runtime.ContainerResources `json:"resources,omitempty"`
	CPUSet       *runtime.CPUSet             `json:"cpuset,omitempty"`
	Reported     *runtime.ReportedResources  `json:"reported,omitempty"`
	User         *runtime.ContainerUser      `json:"user,omitempty"`
	StopSignal   string                      `json:"stopSignal,omitempty"`
}

// OfContainer converts c. The result shares lists and pointers with c.
func OfContainer(c runtime.ContainerStatus) Container {
	return Container{
		Name: c.Name, Runtime: c.ID.Type, ID: c.ID.ID, SandboxID: c.SandboxID, Attempt: c.Attempt, SpecHash: c.SpecHash,
		CreatedAt: c.CreatedAt, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt,
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message, Image: c.Image, ImageID: c.ImageID, ImageRef: c.ImageRef, ImageVolumes: c.ImageVolumes,
		Resources: c.Resources, CPUSet: c.CPUSet, Reported: c.Reported, User: c.User, StopSignal: c.StopSignal,
	}
}

// Status returns the container in that state.
func (c Container) Status(state runtime.ContainerState) runtime.ContainerStatus {
	return runtime.ContainerStatus{
		Name: c.Name, ID: runtime.ContainerID{Type: c.Runtime, ID: c.ID}, State: state, SandboxID: c.SandboxID, Attempt: c.Attempt, SpecHash: c.SpecHash,
		CreatedAt: c.CreatedAt, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt,
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message, Image: c.Image, ImageID: c.ImageID, ImageRef: c.ImageRef, ImageVolumes: c.ImageVolumes,
		Resources: c.Resources, CPUSet: c.CPUSet, Reported: c.Reported, User: c.User, StopSignal: c.StopSignal,
	}
}

// Package statusjson is how what a runtime reported of pods is written as JSON, for a later
// agent to read. Its names are those of files on disks: fields are added, and none is renamed.
package statusjson

import (
	"time"

	"github.com/podsync/podsync/runtime"
)

// A Container is a runtime.ContainerStatus without its state.
type Container struct {
	Name       string     `json:"name"`
	Runtime    string     `json:"runtime"`
	ID         string     `json:"id"`
	SandboxID  string     `json:"sandboxID,omitempty"`
	Attempt    uint32     `json:"attempt"`
	SpecHash   uint64     `json:"specHash,omitempty"`
	CreatedAt  time.Time  `json:"createdAt,omitzero"`
	StartedAt  time.Time  `json:"startedAt,omitzero"`
	FinishedAt time.Time  `json:"finishedAt,omitzero"`
	ExitCode   int32      `json:"exitCode"`
	Reason     string     `json:"reason,omitempty"`
	Message    string     `json:"message,omitempty"`
	Image      string     `json:"image,omitempty"`
	ImageID    string     `json:"imageID,omitempty"`
	ImageRef   string     `json:"imageRef,omitempty"`
	Resources  *Resources `json:"resources,omitempty"`
	Reported   *Reported  `json:"reported,omitempty"`
	User       *User      `json:"user,omitempty"`
	StopSignal string     `json:"stopSignal,omitempty"`
}

// Reported are runtime.ReportedResources.
type Reported struct {
	CPURequest    *int64 `json:"cpuRequest,omitempty"`
	CPULimit      *int64 `json:"cpuLimit,omitempty"`
	MemoryRequest *int64 `json:"memoryRequest,omitempty"`
	MemoryLimit   *int64 `json:"memoryLimit,omitempty"`
}

// User is a runtime.ContainerUser.
type User struct {
	UID    int64   `json:"uid"`
	GID    int64   `json:"gid"`
	Groups []int64 `json:"groups,omitempty"`
}

// Resources are runtime.ContainerResources.
type Resources struct {
	CPURequest    int64 `json:"cpuRequest,omitempty"`
	CPULimit      int64 `json:"cpuLimit,omitempty"`
	MemoryRequest int64 `json:"memoryRequest,omitempty"`
	MemoryLimit   int64 `json:"memoryLimit,omitempty"`
}

// OfContainer shares the lists of c.
func OfContainer(c runtime.ContainerStatus) Container {
	written := Container{
		Name: c.Name, Runtime: c.ID.Type, ID: c.ID.ID, SandboxID: c.SandboxID, Attempt: c.Attempt, SpecHash: c.SpecHash,
		CreatedAt: c.CreatedAt, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt,
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message, Image: c.Image, ImageID: c.ImageID, ImageRef: c.ImageRef,
		StopSignal: c.StopSignal,
	}
	if c.Resources != nil {
		written.Resources = new(Resources(*c.Resources))
	}
	if c.Reported != nil {
		written.Reported = new(Reported(*c.Reported))
	}
	if c.User != nil {
		written.User = new(User(*c.User))
	}
	return written
}

// Status returns the container in that state.
func (c Container) Status(state runtime.ContainerState) runtime.ContainerStatus {
	status := runtime.ContainerStatus{
		Name: c.Name, ID: runtime.ContainerID{Type: c.Runtime, ID: c.ID}, State: state, SandboxID: c.SandboxID, Attempt: c.Attempt, SpecHash: c.SpecHash,
		CreatedAt: c.CreatedAt, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt,
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message, Image: c.Image, ImageID: c.ImageID, ImageRef: c.ImageRef,
		StopSignal: c.StopSignal,
	}
	if c.Resources != nil {
		status.Resources = new(runtime.ContainerResources(*c.Resources))
	}
	if c.Reported != nil {
		status.Reported = new(runtime.ReportedResources(*c.Reported))
	}
	if c.User != nil {
		status.User = new(runtime.ContainerUser(*c.User))
	}
	return status
}

package syncpod

import (
	"encoding/json"
	"time"

	"github.com/podsync/podsync/runtime"
)

// recordVersion is that of the format in which a Record is written. Files without one
// have the names of recordV0.
const recordVersion = 1

// recordV1 is a Record as JSON.
type recordV1 struct {
	Version          int                          `json:"version"`
	Deadline         time.Time                    `json:"deadline,omitzero"`
	NextAttempts     map[string]uint32            `json:"nextAttempts,omitempty"`
	EverStarted      []string                     `json:"everStarted,omitempty"`
	Exited           []recordedContainer          `json:"exited,omitempty"`
	Started          []recordedContainer          `json:"started,omitempty"`
	StartRequested   []string                     `json:"startRequested,omitempty"`
	PostStartPending []string                     `json:"postStartPending,omitempty"`
	PreStopCompleted []string                     `json:"preStopCompleted,omitempty"`
	Resources        map[string]recordedResources `json:"resources,omitempty"`
}

// recordedContainer is a runtime.ContainerStatus as JSON. Its state follows from the
// list that it is in.
type recordedContainer struct {
	Name       string             `json:"name"`
	Runtime    string             `json:"runtime"`
	ID         string             `json:"id"`
	SandboxID  string             `json:"sandboxID,omitempty"`
	Attempt    uint32             `json:"attempt"`
	SpecHash   uint64             `json:"specHash,omitempty"`
	CreatedAt  time.Time          `json:"createdAt,omitzero"`
	StartedAt  time.Time          `json:"startedAt,omitzero"`
	FinishedAt time.Time          `json:"finishedAt,omitzero"`
	ExitCode   int32              `json:"exitCode"`
	Reason     string             `json:"reason,omitempty"`
	Message    string             `json:"message,omitempty"`
	Image      string             `json:"image,omitempty"`
	ImageID    string             `json:"imageID,omitempty"`
	ImageRef   string             `json:"imageRef,omitempty"`
	Resources  *recordedResources `json:"resources,omitempty"`
	Reported   *recordedReported  `json:"reported,omitempty"`
	User       *recordedUser      `json:"user,omitempty"`
	StopSignal string             `json:"stopSignal,omitempty"`
}

// recordedReported are runtime.ReportedResources as JSON.
type recordedReported struct {
	CPURequest    *int64 `json:"cpuRequest,omitempty"`
	CPULimit      *int64 `json:"cpuLimit,omitempty"`
	MemoryRequest *int64 `json:"memoryRequest,omitempty"`
	MemoryLimit   *int64 `json:"memoryLimit,omitempty"`
}

// recordedUser is a runtime.ContainerUser as JSON.
type recordedUser struct {
	UID    int64   `json:"uid"`
	GID    int64   `json:"gid"`
	Groups []int64 `json:"groups,omitempty"`
}

// recordedResources is a runtime.ContainerResources as JSON.
type recordedResources struct {
	CPURequest    int64 `json:"cpuRequest,omitempty"`
	CPULimit      int64 `json:"cpuLimit,omitempty"`
	MemoryRequest int64 `json:"memoryRequest,omitempty"`
	MemoryLimit   int64 `json:"memoryLimit,omitempty"`
}

// recordV0 has the names that a Record had before its format had a version.
type recordV0 struct {
	Deadline   time.Time                             `json:"deadline"`
	Attempts   map[string]uint32                     `json:"attempts"`
	Ran        []string                              `json:"ran"`
	Exited     []runtime.ContainerStatus             `json:"exited"`
	Started    []runtime.ContainerStatus             `json:"started"`
	Unhooked   []string                              `json:"unhooked"`
	Asked      []string                              `json:"asked"`
	PreStopped []string                              `json:"preStopped"`
	Resources  map[string]runtime.ContainerResources `json:"resources"`
}

// MarshalJSON writes the newest version of the format.
func (r Record) MarshalJSON() ([]byte, error) {
	return json.Marshal(recordV1{
		Version: recordVersion, Deadline: r.Deadline, NextAttempts: r.NextAttempts, EverStarted: r.EverStarted,
		Exited: each(r.Exited, toRecorded), Started: each(r.Started, toRecorded),
		StartRequested: r.StartRequested, PostStartPending: r.PostStartPending, PreStopCompleted: r.PreStopCompleted,
		Resources: eachValue(r.Resources, func(r runtime.ContainerResources) recordedResources { return recordedResources(r) }),
	})
}

// UnmarshalJSON reads all versions. Of one that is newer than the newest known here it
// reads what is named as here.
func (r *Record) UnmarshalJSON(text []byte) error {
	var read recordV1
	if err := json.Unmarshal(text, &read); err != nil || read.Version == 0 {
		return r.readOther(text, err)
	}
	*r = Record{
		Deadline: read.Deadline, NextAttempts: read.NextAttempts, EverStarted: read.EverStarted,
		Exited:         each(read.Exited, func(c recordedContainer) runtime.ContainerStatus { return c.status(runtime.ContainerExited) }),
		Started:        each(read.Started, func(c recordedContainer) runtime.ContainerStatus { return c.status(runtime.ContainerRunning) }),
		StartRequested: read.StartRequested, PostStartPending: read.PostStartPending, PreStopCompleted: read.PreStopCompleted,
		Resources: eachValue(read.Resources, func(r recordedResources) runtime.ContainerResources { return runtime.ContainerResources(r) }),
	}
	return nil
}

// readOther reads what could not be read as the newest version, or has none. Only then is it
// read twice: all agents read all records when they begin.
func (r *Record) readOther(text []byte, failed error) error {
	var format struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &format); err != nil {
		return err
	}
	if format.Version != 0 {
		return failed
	}
	return r.readV0(text)
}

func (r *Record) readV0(text []byte) error {
	var read recordV0
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*r = Record{
		Deadline: read.Deadline, NextAttempts: read.Attempts, EverStarted: read.Ran, Exited: read.Exited, Started: read.Started,
		StartRequested: read.Asked, PostStartPending: read.Unhooked, PreStopCompleted: read.PreStopped, Resources: read.Resources,
	}
	return nil
}

func toRecorded(c runtime.ContainerStatus) recordedContainer {
	r := recordedContainer{
		Name: c.Name, Runtime: c.ID.Type, ID: c.ID.ID, SandboxID: c.SandboxID, Attempt: c.Attempt, SpecHash: c.SpecHash,
		CreatedAt: c.CreatedAt, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt,
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message, Image: c.Image, ImageID: c.ImageID, ImageRef: c.ImageRef,
		StopSignal: c.StopSignal,
	}
	if c.Resources != nil {
		r.Resources = new(recordedResources(*c.Resources))
	}
	if c.Reported != nil {
		r.Reported = new(recordedReported(*c.Reported))
	}
	if c.User != nil {
		r.User = new(recordedUser(*c.User))
	}
	return r
}

func (r recordedContainer) status(state runtime.ContainerState) runtime.ContainerStatus {
	c := runtime.ContainerStatus{
		Name: r.Name, ID: runtime.ContainerID{Type: r.Runtime, ID: r.ID}, State: state, SandboxID: r.SandboxID, Attempt: r.Attempt, SpecHash: r.SpecHash,
		CreatedAt: r.CreatedAt, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
		ExitCode: r.ExitCode, Reason: r.Reason, Message: r.Message, Image: r.Image, ImageID: r.ImageID, ImageRef: r.ImageRef,
		StopSignal: r.StopSignal,
	}
	if r.Resources != nil {
		c.Resources = new(runtime.ContainerResources(*r.Resources))
	}
	if r.Reported != nil {
		c.Reported = new(runtime.ReportedResources(*r.Reported))
	}
	if r.User != nil {
		c.User = new(runtime.ContainerUser(*r.User))
	}
	return c
}

// each converts a list, and keeps nil as it is.
func each[A, B any](list []A, to func(A) B) (converted []B) {
	for _, a := range list {
		converted = append(converted, to(a))
	}
	return converted
}

// eachValue converts the values of a map, and keeps nil as it is.
func eachValue[K comparable, A, B any](m map[K]A, to func(A) B) (converted map[K]B) {
	for k, a := range m {
		if converted == nil {
			converted = make(map[K]B, len(m))
		}
		converted[k] = to(a)
	}
	return converted
}

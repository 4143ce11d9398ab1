package memory

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/podsync/podsync/internal/statusjson"
	"github.com/podsync/podsync/runtime"
)

// recordVersion is the version of a Record's format.
const recordVersion = 1

// recordV1 is a Record as JSON.
type recordV1 struct {
	Version          int                                   `json:"version"`
	Deadline         time.Time                             `json:"deadline,omitzero"`
	NextAttempts     map[string]uint32                     `json:"nextAttempts,omitempty"`
	EverStarted      []string                              `json:"everStarted,omitempty"`
	Exited           []statusjson.Container                `json:"exited,omitempty"`
	Started          []statusjson.Container                `json:"started,omitempty"`
	StartRequested   []string                              `json:"startRequested,omitempty"`
	PostStartPending []string                              `json:"postStartPending,omitempty"`
	PreStopCompleted []string                              `json:"preStopCompleted,omitempty"`
	Restarting       map[string]string                     `json:"restarting,omitempty"`
	Resources        map[string]runtime.ContainerResources `json:"resources,omitempty"`
	CPUSets          map[string]runtime.CPUSet             `json:"cpusets,omitempty"`
	CrashBackOffs    map[string]crashV1                    `json:"crashBackOffs,omitempty"`
}

// crashV1 is a CrashBackOff as JSON.
type crashV1 struct {
	Definition string    `json:"definition"`
	Failures   int       `json:"failures"`
	Runtime    string    `json:"runtime"`
	ID         string    `json:"id"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	CountedAt  time.Time `json:"countedAt"`
}

func crashToV1(c CrashBackOff) crashV1 {
	return crashV1{c.Definition, c.Failures, c.ID.Type, c.ID.ID, c.FinishedAt, c.CountedAt}
}

func (c crashV1) crash() CrashBackOff {
	return CrashBackOff{
		Definition: c.Definition, Failures: c.Failures, ID: runtime.ContainerID{Type: c.Runtime, ID: c.ID},
		FinishedAt: c.FinishedAt, CountedAt: c.CountedAt,
	}
}

// MarshalJSON writes the format's newest version.
func (r Record) MarshalJSON() ([]byte, error) {
	return json.Marshal(recordV1{
		Version: recordVersion, Deadline: r.Deadline, NextAttempts: r.NextAttempts, EverStarted: r.EverStarted,
		Exited: each(r.Exited, statusjson.OfContainer), Started: each(r.Started, statusjson.OfContainer),
		StartRequested: r.StartRequested, PostStartPending: r.PostStartPending, PreStopCompleted: r.PreStopCompleted,
		Restarting: r.Restarting, Resources: r.Resources, CPUSets: r.CPUSets, CrashBackOffs: eachValue(r.CrashBackOffs, crashToV1),
	})
}

// UnmarshalJSON reads all versions. If the version is newer than this agent's, it reads the fields that have
// the same names. A record without a version is an error.
func (r *Record) UnmarshalJSON(text []byte) error {
	var read recordV1
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	if read.Version == 0 {
		return errors.New("the record has no version")
	}
	*r = Record{
		Deadline: read.Deadline, NextAttempts: read.NextAttempts, EverStarted: read.EverStarted,
		Exited:         each(read.Exited, func(c statusjson.Container) runtime.ContainerStatus { return c.Status(runtime.ContainerExited) }),
		Started:        each(read.Started, func(c statusjson.Container) runtime.ContainerStatus { return c.Status(runtime.ContainerRunning) }),
		StartRequested: read.StartRequested, PostStartPending: read.PostStartPending, PreStopCompleted: read.PreStopCompleted,
		Restarting: read.Restarting, Resources: read.Resources, CPUSets: read.CPUSets, CrashBackOffs: eachValue(read.CrashBackOffs, crashV1.crash),
	}
	return nil
}

// each converts a list. A nil list stays nil.
func each[A, B any](list []A, to func(A) B) (converted []B) {
	for _, a := range list {
		converted = append(converted, to(a))
	}
	return converted
}

// eachValue converts a map's values. A nil map stays nil.
func eachValue[K comparable, A, B any](m map[K]A, to func(A) B) (converted map[K]B) {
	for k, a := range m {
		if converted == nil {
			converted = make(map[K]B, len(m))
		}
		converted[k] = to(a)
	}
	return converted
}

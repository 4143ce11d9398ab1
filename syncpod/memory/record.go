package memory

import (
	"time"

	"github.com/podsync/podsync/runtime"
)

// Record has the facts about one pod that should outlive the agent. Package syncpod exports it under the
// same name, and documents its fields.
type Record struct {
	Deadline         time.Time
	NextAttempts     map[string]uint32
	EverStarted      []string
	Exited           []runtime.ContainerStatus
	Started          []runtime.ContainerStatus
	PostStartPending []string
	StartRequested   []string
	PreStopCompleted []string
	Restarting       map[string]string
	Resources        map[string]runtime.ContainerResources
	CPUSets          map[string]runtime.CPUSet
	CrashBackOffs    map[string]CrashBackOff
}

// CrashBackOff is the back-off for a container that ends again and again.
type CrashBackOff struct {
	Definition            string
	Failures              int
	ID                    runtime.ContainerID
	FinishedAt, CountedAt time.Time
}

package memory

import (
	"time"

	"github.com/podsync/podsync/runtime"
)

// Record is what should outlive the agent of one pod. Package syncpod exports it under the
// same name, and says there what each field means.
type Record struct {
	Deadline         time.Time
	NextAttempts     map[string]uint32
	EverStarted      []string
	Exited           []runtime.ContainerStatus
	Started          []runtime.ContainerStatus
	PostStartPending []string
	StartRequested   []string
	PreStopCompleted []string
	Resources        map[string]runtime.ContainerResources
	CrashBackOffs    map[string]CrashBackOff
}

// CrashBackOff is the back-off of a container that ends again and again.
type CrashBackOff struct {
	Definition            string
	Failures              int
	ID                    runtime.ContainerID
	FinishedAt, CountedAt time.Time
}

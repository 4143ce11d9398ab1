package start

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Step is a step of a start.
type Step string

// The steps.
const (
	StepImage     Step = "image"
	StepConfig    Step = "config"
	StepCreate    Step = "create"
	StepStart     Step = "start"
	StepPostStart Step = "postStart"
)

// Reason is why a container does not run, with the values that a kubelet writes to v1.ContainerStateWaiting.Reason. The
// reasons about images are those of package image.
type Reason string

// Error returns the reason.
func (r Reason) Error() string { return string(r) }

// The reasons.
const (
	ErrCreateContainerConfig Reason = "CreateContainerConfigError"
	ErrCreateContainer       Reason = "CreateContainerError"
	ErrRunContainer          Reason = "RunContainerError"
	ErrPostStartHook         Reason = "PostStartHookError"
	ErrPreCreateHook         Reason = "PreCreateHookError"
	ErrPreStartHook          Reason = "PreStartHookError"
)

// ErrHookTimeout means that a postStart handler took too long.
var ErrHookTimeout = errors.New("the handler took too long")

// ErrNotProvided means that nothing on the node provides a volume that a container mounts.
var ErrNotProvided = errors.New("which nothing on this node provides")

// Error is why a container does not run.
type Error struct {
	Step   Step
	Reason Reason
	// RetryAt is when the step may be retried, zero if only the caller decides.
	RetryAt time.Time
	// Waits is set if the step was not tried, because an earlier failure backs off.
	Waits bool
	Err   error
}

// Error returns a sentence.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %v", e.Reason, cmp.Or(e.Err, error(e.Reason)))
}

// Unwrap lets errors.Is find the reason, and errors.As the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Err}
}

// The reasons for the events that a Starter records. They are a kubelet's, except EventContainerRecordLost: a container
// runs again although it should not.
const (
	EventPulling             = "Pulling"
	EventPulled              = "Pulled"
	EventFailed              = "Failed"
	EventBackOff             = "BackOff"
	EventErrImageNeverPull   = "ErrImageNeverPull"
	EventInspectFailed       = "InspectFailed"
	EventCreated             = "Created"
	EventStarted             = "Started"
	EventFailedPostStartHook = "FailedPostStartHook"
	EventContainerRecordLost = "ContainerRecordLost"
)

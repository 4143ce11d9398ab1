package syncpod

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/foreign"
	containerstart "github.com/podsync/podsync/syncpod/container/start"
	"github.com/podsync/podsync/syncpod/lifecycle"
)

// Step is a step of the work on a pod: admit, network, prepare, kill, clear, reset, sandbox, back-off, image, config, create,
// start, postStart, resize or cpuset.
type Step string

const (
	stepAdmit     Step = "admit"
	stepNetwork   Step = "network"
	stepPrepare   Step = "prepare"
	stepKill      Step = Step(lifecycle.StepKill)
	stepSandbox   Step = "sandbox"
	stepBackOff   Step = "back-off"
	stepImage     Step = Step(containerstart.StepImage)
	stepConfig    Step = Step(containerstart.StepConfig)
	stepCreate    Step = Step(containerstart.StepCreate)
	stepStart     Step = Step(containerstart.StepStart)
	stepPostStart Step = Step(containerstart.StepPostStart)
	stepResize    Step = "resize"
	stepCPUSet    Step = "cpuset"
)

// Reason is why a container does not run, with the values that a kubelet writes to
// v1.ContainerStateWaiting.Reason, such as CreateContainerError. The reasons about images are in package
// image. A Reason is an error: errors.Is(err, syncpod.Reason("CreateContainerError")).
type Reason string

// Error returns the reason.
func (r Reason) Error() string { return string(r) }

// The reasons.
const (
	ErrCrashLoopBackOff      Reason = "CrashLoopBackOff"
	errCreateContainerConfig Reason = Reason(containerstart.ErrCreateContainerConfig)
	errCreateContainer       Reason = Reason(containerstart.ErrCreateContainer)
	errRunContainer          Reason = Reason(containerstart.ErrRunContainer)
	errPostStartHook         Reason = Reason(containerstart.ErrPostStartHook)
	errPreCreateHook         Reason = Reason(containerstart.ErrPreCreateHook)
	errPreStartHook          Reason = Reason(containerstart.ErrPreStartHook)
	errKillContainer         Reason = "KillContainerError"
	errNetworkNotReady       Reason = "NetworkNotReady"
	errConfigPodSandbox      Reason = "ConfigPodSandboxError"
	errCreatePodSandbox      Reason = "CreatePodSandboxError"
	errKillPodSandbox        Reason = "KillPodSandboxError"
	// ErrPreparePod: the node could not be made ready for the pod.
	ErrPreparePod Reason = "PreparePodError"
	// errResizeContainer: resources could not be changed in place.
	errResizeContainer Reason = "ResizeContainerError"
	// errMoveContainer: the CPUs of a container could not be changed in place.
	errMoveContainer Reason = "MoveContainerError"
	// errResizePod: the pod's resources as a whole could not be resized.
	errResizePod Reason = "ResizePodInPlaceError"
)

// errStillRunning means that a container or a sandbox of a pod runs although every stop has succeeded. The pod must
// be stopped again.
var errStillRunning = errors.New("something of the pod still runs after it was stopped")

// failureShownFor is how long a failed pull is reported as failed before it is reported as backing
// off. A kubelet syncs again after about the same time.
const failureShownFor = 2 * time.Second

// StepError is the failure of a step of a sync, or why the step waits. Each failure is also
// reported in an event, unless it is due to the agent's end.
type StepError struct {
	Step   Step
	Reason Reason
	// Container is the step's container, the zero value for a step of the whole pod.
	Container actions.ContainerRef
	// NotBefore is when the step may be retried, zero for any time.
	NotBefore time.Time
	// Waits is set if the step was not tried, because an earlier failure backs off. Reason and Err are
	// then those of the earlier failure, or ErrCrashLoopBackOff.
	Waits bool
	Err   error
}

// Error returns a sentence.
func (e *StepError) Error() string {
	whose := "pod"
	if e.Container != (actions.ContainerRef{}) {
		whose = e.Container.String()
	}
	return fmt.Sprintf("%s: %s: %v", whose, e.Reason, cmp.Or(e.Err, error(e.Reason)))
}

// Unwrap lets errors.Is find the reason, and errors.As the cause.
func (e *StepError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Err}
}

// RetryAt returns when the step may be tried again, zero if it may be tried at any time.
func (e *StepError) RetryAt() time.Time { return e.NotBefore }

// Temporary reports whether the pod is not the failure's cause: the runtime or the network is
// unavailable, and may be available again at any moment.
func (e *StepError) Temporary() bool {
	return e.Step == stepNetwork || errors.Is(e.Err, cri.ErrUnavailable)
}

// joined joins the errors of failed steps. It omits steps that only back off.
func joined(failed []*StepError) error {
	var all stepErrors
	for _, f := range failed {
		if !f.Waits {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// stepErrors are all failures of one call. They are retried together.
type stepErrors []*StepError

// maxErrors limits the text of all failures of a call, in bytes.
const maxErrors = 16 << 10

// Error returns the failures, one on each line. It omits those in the middle if there are too many.
func (e stepErrors) Error() string {
	return foreign.CutText(errors.Join(e.Unwrap()...).Error(), maxErrors)
}

// Unwrap returns the failures.
func (e stepErrors) Unwrap() []error {
	all := make([]error, len(e))
	for i, failed := range e {
		all[i] = failed
	}
	return all
}

// RetryAt returns when the first of the failed steps may be tried again, zero if one of them may be tried at any time.
func (e stepErrors) RetryAt() time.Time {
	return slices.MinFunc(e, func(a, b *StepError) int { return a.NotBefore.Compare(b.NotBefore) }).NotBefore
}

// Temporary reports whether all failures are temporary.
func (e stepErrors) Temporary() bool {
	return !slices.ContainsFunc(e, func(failed *StepError) bool { return !failed.Temporary() })
}

// nextSync returns when to sync again for e, zero for no particular time. If a failed pull must be
// reported as backing off before the retry, it is that time: ErrImagePull then becomes
// ImagePullBackOff.
func (e *StepError) nextSync() time.Time {
	soon := time.Now().Add(failureShownFor)
	if e.Step == stepImage && !e.Waits && e.NotBefore.After(soon) {
		return soon
	}
	return e.NotBefore
}

// waiting returns e in the form reported until the retry.
func (e *StepError) waiting(until time.Time) *StepError {
	held := *e
	held.NotBefore, held.Waits = until, true
	return &held
}

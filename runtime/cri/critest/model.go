package critest

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Model selects the behaviour of a real runtime where runtimes differ and agents notice.
//
//	                                      Containerd2         Containerd16  CRIO
//	create with a name that is taken      FailedPrecondition  Unknown       the ID that has it
//	GetContainerEvents                    yes                 no            yes
//	events of a sandbox's begin and end   both                none          none
//	stop of an unknown container          success             NotFound      success
//	create in a stopped sandbox           Unknown             NotFound      Unknown
//	containers in PodSandboxStatus        no                  no            yes
//	a command that does not exist fails   the start           the start     the creation
//	an ExecSync takes too long            DeadlineExceeded    the same      exit code -1
//	remove and stop of the sandbox kill   at once             at once       before the deadline
//	stop of a container never started     it remains CREATED  the same      it becomes EXITED
//	stop of an exited container           no change           no change     finishedAt is now
//	address of a stopped sandbox          none                none          the last one
//	a missing log directory is created    at a start          the same      with the sandbox
//
// The project's end-to-end tests compare this table with containerd 2.4 and 1.6 and with CRI-O
// 1.34.
type Model uint8

const (
	// Containerd2 rejects a name (pod, namespace, UID and attempt, and the container's) from the
	// beginning of its creation until its removal. The error contains the ID for which it is
	// reserved.
	Containerd2 Model = iota
	// Containerd16 has no events and fewer distinct error codes.
	Containerd16
	// CRIO answers a request for a taken name with the ID of the existing object. While that object
	// is being created, the request blocks until its caller's deadline, even after the creation has
	// succeeded or failed, and the next request gets the ID. An object whose caller disconnected
	// during the creation is hidden until it is requested again. (CRI-O removes it if no request
	// arrives within a minute or two; critest does not.)
	CRIO
)

// nameTaken is the code for a reserved name.
func (m Model) nameTaken() codes.Code {
	if m == Containerd2 {
		return codes.FailedPrecondition
	}
	return codes.Unknown
}

// imageMissing is the code for a creation whose image is not present.
func (m Model) imageMissing() codes.Code {
	if m == CRIO {
		return codes.Unknown
	}
	return codes.NotFound
}

// execNotRunning is the code for an ExecSync in a container that does not run.
func (m Model) execNotRunning() codes.Code {
	if m == CRIO {
		return codes.NotFound
	}
	return codes.Unknown
}

// errNoContainer is the error of some calls that require the container.
func (m Model) errNoContainer(id string) error {
	if m == CRIO {
		return status.Errorf(codes.Unknown, "could not find container %q: container with ID starting with %s not found: ID does not exist", id, id)
	}
	return errNoContainer(id)
}

// grace is how long a container may take to end when it is removed, or stopped with its sandbox.
func (m Model) grace(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	switch {
	case m != CRIO:
		return 0
	case !ok:
		return 10 * time.Second
	}
	return time.Until(deadline).Truncate(time.Second)
}

// sandboxStopped is the code for a creation in a sandbox that does not run.
func (m Model) sandboxStopped() codes.Code {
	if m == Containerd16 {
		return codes.NotFound
	}
	return codes.Unknown
}

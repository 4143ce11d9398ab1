package critest

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Model selects a real runtime's behaviour where runtimes differ and agents notice.
//
//	                                      Containerd2         Containerd16  CRIO
//	a name that is taken                  FailedPrecondition  Unknown       the ID that has it
//	GetContainerEvents                    yes                 no            yes
//	events of a sandbox's begin and end   both                none          none
//	stop of a container that is not there success             NotFound      success
//	create in a stopped sandbox           Unknown             NotFound      Unknown
//	containers in PodSandboxStatus        no                  no            yes
//	no such command: what fails           the start           the start     the creation
//	an ExecSync takes too long            DeadlineExceeded    the same      exit code -1
//	remove and stop of the sandbox kill   at once             at once       before the deadline
//	stop of a container never started     it is CREATED still the same      it is EXITED
//	stop of one that has exited           no change           no change     finishedAt is now
//	address of a stopped sandbox          none                none          the one it had
//	log directory that is not there       made at a start     the same      made with the sandbox
//
// The project's end-to-end tests compare this table with containerd 2.4 and 1.6 and with CRI-O
// 1.34.
type Model uint8

const (
	// Containerd2 refuses a name (pod, namespace, UID and attempt, and the
	// container's) from the first moment of its creation until its removal, with
	// an error that says for which ID it is reserved.
	Containerd2 Model = iota
	// Containerd16 has no events and fewer distinct error codes.
	Containerd16
	// CRIO answers a request for a taken name with the ID of the existing object. While that object
	// is being created, the request blocks until its caller's deadline, even after the creation has
	// succeeded or failed, and the next request gets the ID. An object created for a caller that
	// had gone is hidden until it is requested again. (CRI-O removes it if nobody requests it
	// within a minute or two; critest does not.)
	CRIO
)

// nameTaken is the code of a name that is reserved.
func (m Model) nameTaken() codes.Code {
	if m == Containerd2 {
		return codes.FailedPrecondition
	}
	return codes.Unknown
}

// imageMissing is the code of a creation without its image.
func (m Model) imageMissing() codes.Code {
	if m == CRIO {
		return codes.Unknown
	}
	return codes.NotFound
}

// execNotRunning is the code of an ExecSync in a container that does not run.
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

// grace is the time that a container has to end when it is removed, or stopped with
// its sandbox.
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

// sandboxStopped is the code of a creation in a sandbox that does not run.
func (m Model) sandboxStopped() codes.Code {
	if m == Containerd16 {
		return codes.NotFound
	}
	return codes.Unknown
}

package critest

import "google.golang.org/grpc/codes"

// Model is a runtime to be like, where runtimes differ and agents notice.
//
//	                                      Containerd2         Containerd16  CRIO
//	a name that is taken                  FailedPrecondition  Unknown       the ID that has it
//	GetContainerEvents                    yes                 no            yes
//	stop of a container that is not there success             NotFound      success
//	create in a stopped sandbox           Unknown             NotFound      Unknown
//	containers in PodSandboxStatus        no                  no            yes
//
// What is said of containerd is compared with 2.4 and 1.6 by the project's
// end-to-end tests; what is said of CRI-O is taken from its issues (cri-o
// #4221, #4266, #4444).
type Model uint8

const (
	// Containerd2 refuses a name (pod, namespace, UID and attempt, and the
	// container's) from the first moment of its creation until its removal, with
	// an error that says for which ID it is reserved.
	Containerd2 Model = iota
	// Containerd16 has no events and tells less apart.
	Containerd16
	// CRIO answers a request for a name that is taken with the ID that has it.
	// While that one is still being made, the request waits for it. What was made
	// for a caller who had given up is not shown to anyone before it is asked for
	// again. (CRI-O removes it if nobody does for a minute or two; critest does not.)
	CRIO
)

// nameTaken is the code of a name that is reserved.
func (m Model) nameTaken() codes.Code {
	if m == Containerd2 {
		return codes.FailedPrecondition
	}
	return codes.Unknown
}

// sandboxStopped is the code of a creation in a sandbox that does not run.
func (m Model) sandboxStopped() codes.Code {
	if m == Containerd16 {
		return codes.NotFound
	}
	return codes.Unknown
}

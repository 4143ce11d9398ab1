// Package cri connects to a container runtime with CRI v1: it provides a connection with timeouts
// that survives restarts of the runtime, classes of errors, and the conversion of messages to the
// types of package runtime.
//
// [Dial] connects. Its result implements both generated CRI clients; all packages of this module
// accept only the methods they need (such as [Execer]), so other clients and
// wrappers can be used too. Add [Timeouts.Interceptor] to such a connection: without it, a call to
// a runtime that hangs ends only with its context.
//
// # Errors
//
// The generated clients return gRPC statuses, and runtimes use the codes inconsistently. Only
// [Classify] interprets codes and texts; all other code tests for a [Class] with errors.Is. After
// an [Ambiguous] error the outcome is unknown: inspect the state before you repeat the call.
//
// # Number of calls
//
// [Reader] requests only the changes since the status passed to it. If a runtime reports the
// containers with their sandbox, as CRI-O does when it streams events (right column), a changed
// sandbox includes them.
// streams events (right column), a changed sandbox brings them along.
//
//	one pod of 1 container               containerd   CRI-O   a kubelet
//	  new                                         4       3           4
//	  settled, looked at again                    2       2           4
//	  its container exited                        3       3           4
//	one pod of 3 containers
//	  new                                         6       3           6
//	  settled, looked at again                    2       2           6
//	  one container exited                        3       3           6
//	all pods of a node
//	  nothing changed                             2       2           2
//	  one container of a pod of 3 exited          3       3           8
//
// The first six are [Reader.PodStatus]; the last two are [Reader.List] with [Reader.Inspect] for
// the pods that [ListedPod.Changed] selects, which reuses the list that a kubelet makes again for
// each changed pod. The tests of this package count these calls.
//
// To create a pod whose images are present: the sandbox, for each container the status of its
// image, its creation and its start, and then one inspection of the whole pod.
//
//	                                     containerd   CRI-O   a kubelet
//	a new pod of 1 container                    8       7          10
//	a new pod of 3 containers                  16      13          20
//
// Tests with an in-memory runtime count the calls of this module. Those of a kubelet are not
// measured but derived from its known sequence of calls: in addition it requests the new sandbox's
// status, and the status of each image a second time to get its user.
//
// # Where each rule lives
//
//	dial.go       Dial and Client; endpoint.go and pipe_*.go the runtime's address
//	exec.go       limits the memory of command output
//	timeouts.go   timeouts of calls; insist.go repeats calls that hang
//	roles.go      interfaces with the methods that other packages need
//	errors.go     classes of errors, and which are ambiguous
//	owner.go      the owner of a sandbox or container
//	reader.go     Reader: one pod, only its changes
//	inspect.go    concurrent requests for one pod
//	list.go       all pods of a node, and which have changed
//	convert.go    from CRI's messages to package runtime's types
//
// # Ownership of pods
//
// A runtime may serve several agents. Objects of podsync have a label with the agent's name, and by
// default an agent sees only its own; see [Owner].
package cri

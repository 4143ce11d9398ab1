// Package cri is the way to a container runtime that speaks CRI v1: a connection
// that bounds its calls and survives the runtime's restarts, the classes of
// errors, and the conversion of what runtimes report to package runtime's types.
//
// [Dial] connects. What it returns is both generated CRI clients; everything in
// this module takes only the role it needs of them (see [StatusCalls] and the
// others), so a client that was made or wrapped elsewhere does as well. Put
// [Timeouts.Interceptor] on such a connection: without it a call to a runtime that
// hangs ends with its context alone.
//
// # Errors
//
// The generated clients return gRPC statuses, and runtimes choose their codes
// freely. [Classify] is the one place that reads codes and texts; all else tests
// for a [Class] with errors.Is. An answer that leaves open what happened is
// [Ambiguous]: look before you repeat such a call.
//
// # How many calls a look at a pod takes
//
// [Reader] asks only for what has changed since the status it is given. Where a
// runtime reports the containers with their sandbox, as CRI-O does when it
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
// The first six are [Reader.PodStatus]; the last two are [Reader.List] with
// [Reader.Inspect] for the pods that [ListedPod.Changed] names, which uses the
// list again that a kubelet makes anew for each changed pod. The tests of this
// package count these calls.
//
// To make a pod, with images that are there: the sandbox, for each container a look
// at its image, its creation and its start, and then a look at the whole.
//
//	                                     containerd   CRI-O   a kubelet
//	a new pod of 1 container                    8       7          10
//	a new pod of 3 containers                  16      13          20
//
// The numbers of this module are counted in tests over a runtime in memory. Those
// of a kubelet are not measured but read from the order of calls that it is known
// to make: beyond these it asks for the new sandbox's status, and for each image a
// second time to learn its user.
//
// # Where each rule lives
//
//	dial.go       Dial and Client; endpoint.go and pipe_*.go where a runtime listens
//	exec.go       bounds the memory of what commands in containers print
//	timeouts.go   how long each call may take; insist.go asks again beside one that hangs
//	roles.go      the parts of CRI that others ask for
//	errors.go     classes of errors, and which answers leave open what happened
//	owner.go      whose a sandbox or container is
//	reader.go     Reader: one pod, asked only for what has changed
//	inspect.go    what of a pod is asked for together
//	list.go       all pods of a node, and which have changed
//	convert.go    from CRI's messages to package runtime's types
//	events.go     Events
//
// # Whose pods
//
// A runtime may serve several agents. What podsync makes carries a label with its
// agent's name, and by default nothing else is seen; see [Owner].
//
// # Events
//
// [Events] reads the runtime's event stream, where it has one. Events only say
// where to look: they are lost, doubled and late on every runtime, and when a
// stream breaks whatever happened meanwhile is never told. So the reader drops
// nothing and waits for nobody, but keeps nothing either: its handler notes which
// pods to look at.
package cri

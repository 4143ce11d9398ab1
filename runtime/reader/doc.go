// Package reader reads pods from a container runtime, and converts CRI's messages to the types in package runtime.
// A program imports it to turn CRI answers into a PodStatus.
//
// # Number of calls
//
// [Reader] requests only the changes since the status passed to it. If a runtime reports the
// containers with their sandbox, as CRI-O does when it streams events (right column), a changed
// sandbox includes them.
//
//	one pod of 1 container               containerd   CRI-O   a kubelet
//	  new                                         4       3           4
//	  settled, inspected again                    2       2           4
//	  its container exited                        3       3           4
//	one pod of 3 containers
//	  new                                         6       3           6
//	  settled, inspected again                    2       2           6
//	  one container exited                        3       3           6
//	all pods of a node
//	  nothing changed                             2       2           2
//	  one container of a pod of 3 exited          3       3           8
//
// The first six are [Reader.PodStatus]; the last two are [Reader.List] with [Reader.Inspect] for the pods that
// [ListedPod.Changed] selects, which reuses the list that a kubelet makes again for each changed pod. The tests
// for this package count these calls.
//
// To create a pod whose images are present: the calls are the sandbox's creation, for each container its image's
// status, its creation and its start, and then one inspection for the whole pod.
//
//	                                     containerd   CRI-O   a kubelet
//	a new pod of 1 container                    8       7          10
//	a new pod of 3 containers                  16      13          20
//
// Tests with an in-memory runtime count this module's calls. A kubelet's calls are derived from its known sequence: in
// addition it requests the new sandbox's status, and each image's status a second time to get its user.
package reader

// The files:
//
//	reader.go   Reader: one pod, only its changes
//	inspect.go  the requests for one pod
//	list.go     all pods of a node, and which have changed
//	convert.go  the conversion of CRI's messages

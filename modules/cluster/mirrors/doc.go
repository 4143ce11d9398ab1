// Package mirrors creates mirror pods: each static pod of the node has a mirror pod in the API server, which no node
// runs, so that the static pod is visible, counted by the scheduler, and has a status and logs like other pods. A
// cluster node that runs static pods imports it.
//
// A mirror has the annotations that a kubelet sets: kubernetes.io/config.mirror holds the static
// pod's hash, which is the UID of that pod on the node. The mirror's owner is the Node. A deleted
// mirror is created again. When a static pod changes, its mirror keeps its UID until the old
// version has stopped, and is then replaced. When a static pod is removed, its mirror is deleted
// after the pod has stopped, or at the agent's next start, but not while it is unknown whether the
// pod is still desired. A pod with the name of a mirror that is not a mirror is left alone.
// Requests that the API server rejects are retried with back-off.
package mirrors

// The files:
//
//	mirrors.go   Mirrors: when a mirror is reconciled, and how
//	source.go    Source: static pods on their way to a loop.Loop
//	mirror.go    the mirror's object

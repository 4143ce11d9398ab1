// Package status writes the statuses of a node's pods to the API server, and deletes the objects of pods that have
// been deleted and have terminated. A cluster node imports it as its StatusSink.
//
// A [Manager] is the syncpod.StatusSink of an agent: it stores the newest status of each pod and
// returns immediately, so that no sync waits for the API server. It then patches the status. Each
// pod has at most one write at a time, of its newest status, and an unchanged status is not
// written. Failed writes are retried with back-off until the pod's object is gone. A terminal
// status is written however long that takes; after an agent restart the loop reports the
// persisted statuses again.
//
// A patch contains the UID and the resourceVersion that it is based on, so that it never applies to
// another pod or overwrites an unseen status. After a conflict the Manager reads the pod again, and
// the next patch contains the UID only, so that another frequent writer cannot block it. Conditions
// and fields of other writers, such as readiness gates, are preserved.
//
// An agent calls Finished of the [Manager] when nothing of a pod is left on the node. If the pod's
// object is being deleted, the Manager deletes the object with grace period 0 and the UID as precondition,
// after it has written the last status.
package status

// The files:
//
//	manager.go   Manager: which statuses are pending, and when they are written
//	patch.go     the patch: which fields and conditions the node owns

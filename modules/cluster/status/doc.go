// Package status tells the API server how the pods of a node do, and has it forget those
// that were deleted and have ended.
//
// A [Manager] is the syncpod.StatusSink of an agent: it notes the newest status of each
// pod and returns at once, so that no work waits for the API server. The status is then
// patched, one write of a pod at a time, the newest first and none twice. What cannot be
// written is tried again, at growing intervals, until the pod is gone; an end that was
// noted is written however long that takes, and an agent that starts anew is told by the
// loop of what it knows of earlier ones.
//
// A patch names the UID and the resourceVersion that it was made for, so that it never
// meets another pod or a status that it has not seen. If another has written meanwhile, the pod
// is read anew, and the next patch names the UID alone: a fast writer holds nothing up. Conditions and fields that others
// write, such as those of readiness gates, are left as they are.
//
// The [Manager] is also told when nothing of a pod is left on the node (it is a
// podworkers.Observer), and then deletes a pod that waits for that: with grace period 0
// and its UID, once its last status is written.
//
//	manager.go   Manager: what is noted and when it is written
//	patch.go     the patch: which fields and conditions are the node's
package status

// Package keeper keeps what an agent must remember of its pods beyond a runtime's answers: exit codes, attempts,
// back-offs, marks and failures. Each pod has a lock, and a record that outlives the agent. A kubelet takes most of
// these facts from the runtime, and loses them with it. A program with its own loop imports it for a memory that
// survives restarts.
//
// The rules are those of package memory; a [Pod] applies them under its lock. [Pod.See] completes each status that is read,
// [Pod.Facts] returns the input of a decision, and [Pod.Failed] delays the next try of a step. A Pod is the Memory of
// packages lifecycle and container/start.
//
// The caller passes each status that it reads to Observe or See, calls See before Facts with the newest one, and Forget when
// nothing of a pod is left on the node. A Keeper guarantees that a record is either the last one or the one before if the
// agent is killed, and that a pod without a record has not run.
//
// Methods may be called concurrently. Nothing runs in the background.
package keeper

// Where each rule lives:
//
//	keeper.go  Keeper, and the records
//	pod.go     Pod: statuses, facts of a decision, failures

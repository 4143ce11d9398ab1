// Package recorder keeps the decisions of an agent in files, so that they can be explained later, and made again by
// another version. An agent imports it to show afterwards why a pod was restarted.
//
// A [Recorder] writes a line of JSON for each decision: the input of actions.Compute, and the plan. [Read] reads the lines,
// and [Decision.Input] returns an input with which Compute makes the same decision. The lines have the format of the
// decisions of a kubelet that podsync is compared with, and more fields.
//
// The pod is reduced to what a decision depends on. So the files have no environment, command, annotation or message of a
// container, in which values of Secrets could be.
package recorder

// Where each rule lives:
//
//	recorder.go  the queue and the files
//	decision.go  one decision as JSON, and back
//	reduce.go    the parts of a pod that are recorded

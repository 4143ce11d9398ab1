// Package mirrors shows the static pods of a node to the API server: each has a mirror pod
// there, which nobody runs, so that they are seen, counted by the scheduler, and have
// statuses and logs like others.
//
// A mirror has the annotations that a kubelet gives it: kubernetes.io/config.mirror has
// the hash of the static pod that it shows, which is the UID of that pod on the node. Its
// owner is the Node. A mirror that is deleted is made anew. A mirror of an earlier version of the
// pod is replaced when that version has stopped, and keeps its UID until then;
// one whose static pod has gone is deleted when that has stopped (at once, if it went while
// the agent was off), and not while it is not known whether the pod is wanted. A pod that has the name of a mirror and is none is let
// be. What the API server refuses is tried again at growing intervals.
//
//	mirrors.go   Mirrors: when a mirror is looked at, and what is done then
//	source.go    Source: static pods on their way to a loop.Loop
//	mirror.go    what a mirror looks like
package mirrors

// Package podspec answers what follows from a pod's spec alone, and does for a
// pod that comes from a file or a program what an API server and a kubelet do
// for one that comes from a cluster.
//
//   - [Static] gives a pod the identity a kubelet gives a static pod.
//   - [Default] fills in the API's defaults.
//   - [Validate] says what is wrong with a pod, all of it, by field.
//   - Package [github.com/podsync/podsync/syncpod/podspec/qos] tells the quality
//     of service.
//
// They are used in this order: the identity of a pod is that of the manifest as
// it was written, whatever defaults a later version of this module knows, and
// Validate expects the fields that Default fills in.
//
// All of it is pure: nothing given is written to, and results share no memory
// with it. No pod makes any of it panic.
//
// # Limits
//
// The defaults and rules are those a node relies on. What only schedulers, admission
// or cluster-wide controllers read (affinity, topology spread, scheduling gates,
// claims for devices), what only a volume plugin reads, and Windows options are
// left as they are.
package podspec

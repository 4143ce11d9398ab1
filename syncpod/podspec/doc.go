// Package podspec answers what follows from a pod's spec alone, and does for a
// pod that comes from a file or a program what an API server and a kubelet do
// for one that comes from a cluster.
//
//   - [Static] gives a pod the identity a kubelet gives a static pod.
//   - [Default] fills in the API's defaults.
//   - [Validate] says what is wrong with a pod, all of it, by field;
//     [ValidateAdmitted] what keeps one from running that an API server has admitted, and
//     [ValidateQuantities] which quantities nothing can be computed with. [ParseQuantity] makes none of those.
//   - [References] names the ConfigMaps and Secrets that a pod refers to.
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
// # Where each rule lives
//
//	static.go               Static: the identity of a static pod
//	default.go              Default; default_resources.go, default_volume.go
//	validate.go             Validate, and what is asked of many fields
//	validate_spec.go        the pod's own fields
//	validate_container.go   containers; validate_env.go, validate_handler.go,
//	                        validate_resources.go, validate_security.go
//	validate_volume.go      volumes
//	validate_admitted.go    ValidateAdmitted
//	validate_quantities.go  ValidateQuantities
//	references.go           References
//	members.go              the containers of all three lists, with their paths
//
// # Limits
//
// The defaults and rules are those a node relies on. What only schedulers, admission
// or cluster-wide controllers read (affinity, topology spread, scheduling gates,
// claims for devices), what only a volume plugin reads, and Windows options are
// left as they are.
package podspec

// Package podspec contains the rules that depend only on a pod's spec, and does for a pod from a
// file or a program what an API server and a kubelet do for one from a cluster. A program
// imports it for pods that no API server has admitted.
//
//   - [Static] gives a pod the identity of a static pod.
//   - [Default] sets the API's defaults.
//   - [Validate] returns all errors of a pod, by field; [ValidateAdmitted] the reasons that prevent an
//     admitted pod from running, and [ValidateQuantities] the quantities that cannot be computed with.
//     [ParseQuantity] returns none of those.
//   - [References] lists the ConfigMaps and Secrets that a pod refers to.
//   - Package [github.com/podsync/podsync/syncpod/podspec/qos] determines the quality of service.
//
// Call them in this order: a pod's identity depends on the manifest as written, independent of a
// module version's defaults, and Validate expects the defaults.
//
// Everything is pure: no argument is modified, and results share no memory with arguments. No pod
// causes a panic.
//
// # Limits
//
// The defaults and rules are those that a node relies on. Fields for schedulers, admission or
// controllers (affinity, topology spread, scheduling gates, device claims), for volume plugins, and
// Windows options are not changed.
package podspec

// Where each rule lives:
//
//	static.go               Static: the identity of a static pod
//	default.go              Default; default_resources.go, default_volume.go
//	validate.go             Validate, and common checks
//	validate_spec.go        the pod's own fields
//	validate_container.go   containers; validate_env.go, validate_handler.go,
//	                        validate_resources.go, validate_security.go
//	validate_volume.go      volumes
//	validate_admitted.go    ValidateAdmitted
//	validate_size.go        the lengths of lists
//	validate_quantities.go  ValidateQuantities
//	references.go           References
//	members.go              the containers of all three lists, with their paths

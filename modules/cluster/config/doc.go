// Package config reads the file that a kubelet is configured with, a KubeletConfiguration
// of kubelet.config.k8s.io/v1beta1, for an agent that takes the kubelet's place.
//
// [Load] gives the fields that are heeded a kubelet's defaults, and warns of each other
// field that is set: it changes nothing here.
//
// Fields that protect the node are heeded or refused with an error, and never left out with a
// warning. [CheckMachine] compares the machine with those that demand something of it.
//
//	hardening.go  the fields that protect the node
//	load.go       Load, and which fields are heeded
//	effective.go  the configuration as the node shows it
//	values.go     amounts of resources in the file
//	eviction.go   when pods are evicted
package config

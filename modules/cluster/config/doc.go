// Package config reads the configuration file of a kubelet, a KubeletConfiguration of kubelet.config.k8s.io/v1beta1,
// for an agent that replaces the kubelet. podsync-node imports it, and so may any node that is installed with a
// kubelet's files.
//
// Each field is honoured, refused or meaningless: [Fields] is the table. [Load] sets a kubelet's defaults. It returns a
// warning for each meaningless field that is set, and an error for a field that requests behaviour that the node does not
// support. A field that protects the node is never meaningless. [CheckMachine] checks that the machine meets the
// configuration's requirements.
package config

// The files:
//
//	fields.go     the treatment of each field
//	hardening.go  the values of fields that protect the node, and the checks of the machine
//	load.go       Load, and the defaults
//	dropin.go     the sources of a configuration: a file, its drop-ins, and flags
//	effective.go  the configuration as the node shows it
//	values.go     amounts of resources in the file
//	eviction.go   when pods are evicted
//	shutdown.go   how long pods may take to stop when the machine shuts down

//go:build linux

// Command csidriver replaces the images that Kubernetes' tests of CSI drivers use. It accepts the flags that the manifests
// of the tests pass:
//
//	csidriver driver       a CSI driver for one node, whose volumes are directories and files; replaces hostpathplugin.
//	                       With -proxy-endpoint it forwards its socket to the mock driver in the process of the tests
//	csidriver registrar    registers a driver with the agent of the node; replaces csi-node-driver-registrar
//	csidriver provisioner  creates and deletes PersistentVolumes; replaces csi-provisioner
//	csidriver attacher     attaches and detaches volumes; replaces csi-attacher
//	csidriver resizer      expands volumes; replaces csi-resizer
//	csidriver probe        serves /healthz; replaces livenessprobe
//	csidriver idle         waits for a signal; replaces csi-snapshotter, because no test of snapshots runs
//
// The driver checks the calls' order: it refuses to publish a volume that is not staged, to unstage a volume that is
// published, and to delete a volume that is in use. So a test fails if the agent of the node violates the protocol.
//
// The controllers list their objects once a second. They do what the tests for the node side need: neither topology
// nor capacity, snapshots or VolumeAttributesClasses.
package main

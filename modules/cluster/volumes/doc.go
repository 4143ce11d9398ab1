// Package volumes connects package csi of modules/csi with the API server: it reads claims, PersistentVolumes,
// CSIDrivers and VolumeAttachments, updates the CSINode of the node, and records expansions in claim status. A cluster
// node imports it if its pods have PersistentVolumeClaims.
//
// A node may read a claim, a PersistentVolume and a VolumeAttachment only by its name, and only while a pod of the node
// needs it (the node authorizer), so each object is read when it is needed. CSIDrivers are watched.
package volumes

// The files:
//
//	volumes.go   Config, New, Objects
//	tokens.go    tokens of service accounts for drivers
//	csinode.go   the CSINode
//	expanded.go  the progress and the results of expansions

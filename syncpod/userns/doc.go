// Package userns gives pods user namespaces of their own (spec.hostUsers false, KEP-127): root in such a pod is an
// unprivileged user of the node, and no two pods have the same users. An agent imports it for pods that must not be
// root on the node.
//
//	namespaces, err := userns.New(userns.Config{Dir: "/var/lib/my-agent/pods", Runtime: client})
//	config.Sync.Extensions.UserNamespaces = namespaces
//
// Package agent does so by default.
//
// A pod's range is recorded in its directory, in the file and format of a kubelet: each can take over the pods of the
// other. The range becomes free when the pod has been cleaned up.
package userns

// The files:
//
//	ids.go        IDs: which IDs there are, and the lowest free range; pure
//	allocator.go  Allocator: gives a range to each pod that needs one, until the pod has been cleaned up
//	record.go     the file with the range of a pod

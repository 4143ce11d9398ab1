// Package pods is the source of the pods that an API server has bound to a node.
//
// A [Source] is a source.Source for a loop.Loop. It watches the pods whose
// spec.nodeName is the node's, and is ready once the API server has listed them, so that
// nothing is stopped before. While the API server is away it says nothing, and what runs
// goes on. A pod that is being deleted is stopped within the grace period that the API
// server gives it; one that is gone from there is stopped, too.
//
// Mirror pods are passed over: they show static pods, which come from a folder.
//
//	source.go   Source
package pods

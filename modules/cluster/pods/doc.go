// Package pods is a source of the pods that are bound to a node in an API server. An agent that takes its pods from an
// API server imports it.
//
// A [Source] is a source.Source for a loop.Loop. It watches the pods whose spec.nodeName is the
// node's. It is ready once the API server has listed them, so that no pod is stopped before that.
// While the API server is unavailable, the pods keep running unchanged. A pod that is being deleted
// is stopped within the grace period in its object; a pod whose object no longer exists is stopped
// too.
//
// The Source ignores mirror pods: their static pods come from another source.
package pods

// The files:
//
//	source.go   Source

// Package objects reads the API objects that the pods on a node refer to. A cluster node imports it for its pods'
// ConfigMaps, Secrets, Services and tokens.
//
// A node may read only the objects that its pods name: each ConfigMap and Secret has its own watch, from the first
// request until no pod of the node names the object. Services and RuntimeClasses each have one watch for all objects. A
// service account token is requested with a TokenRequest that is bound to the pod; package volume of podsync caches
// tokens until they must be renewed.
//
// No error and no log line contains the contents of a Secret, or a token.
package objects

// The files:
//
//	objects.go      Objects
//	watch.go        the watch of one object, and all of its kind
//	references.go   which objects a pod names

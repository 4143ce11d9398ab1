// Package objects gets from an API server what the pods of a node refer to.
//
// A node may read no more than its pods name: a ConfigMap or a Secret is watched on its
// own, from when it is asked for until no pod of the node names it any more. Services and
// RuntimeClasses are watched as a whole. Tokens of service accounts are asked for by
// TokenRequest, bound to the pod that they are for; package volume of podsync keeps them
// until they are to be renewed.
//
// No error and no line of a log holds what is in a Secret, or a token.
//
//	objects.go      Objects
//	watch.go        one object that is watched, and all of its kind
//	references.go   which objects a pod names
package objects

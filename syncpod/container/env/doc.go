// Package env resolves the environment variables of a container: values with
// references to other variables, fields of the pod, resources, keys of
// ConfigMaps and Secrets, and the variables that tell of services.
//
// # Order and precedence
//
// [Resolve] returns each variable once. A later source wins over an earlier one:
//
//  1. services, in the order of their names;
//  2. envFrom, in the order of the spec, and the keys of one source sorted;
//  3. env, in the order of the spec.
//
// A variable stands where its name first came up, with the value it got last. A
// kubelet hands the same variables to the runtime, in no particular order.
//
// A value that is written in the spec may refer to variables as $(NAME), which stays as
// it is if there is no such variable; $$ stands for $. It sees the variables that were
// set before it, those of services included. Values from other sources are taken as they
// are.
//
// # Where each rule lives
//
//	env.go         Resolve: the order of the sources, and what stands in env
//	set.go         the variables, never more than a process can be started with
//	fields.go      fields of the pod
//	resources.go   requests and limits
//	services.go    variables that tell of services
//	sources.go     ConfigMaps, Secrets and files, and envFrom
//	downward.go    Field and Resource: the same values for others than variables
//
// # Sources
//
// ConfigMaps, Secrets and Services are asked for through the small interfaces
// of [Sources], when a container refers to them and no more than once each. A
// reference that is marked optional is skipped if what it names does not exist;
// another is an [*Error] that wraps [ErrNotFound]. A source that fails for another
// reason fails the call, optional or not; but for Services and a static pod, which is told of
// none then, as it may be the API server that is to tell of them.
//
// No value of any source becomes part of an error made here.
package env

// Package env resolves a container's environment variables: values with references to other variables, the pod's fields,
// resources, keys in ConfigMaps and Secrets, and service variables. A program that starts containers in any runtime
// imports it for their environment.
//
// # Parts
//
// MakeEnvironment is a kubelet's makeEnvironmentVariables. Its parts can be used alone: [FromServices] is envvars.FromServices,
// [FieldValue] fieldpath.ExtractFieldPathAsString, [ResourceValue] resource.ExtractContainerResourceValue, and [Expand]
// expansion.Expand. None needs the API's defaults. The caller passes the pod's and the node's addresses, if fields refer to them.
//
// # Order and precedence
//
// [MakeEnvironment] returns each variable once. A later source wins over an earlier one:
//
//  1. services, in the order of their names;
//  2. envFrom, in the order of the spec, and the keys of one source sorted;
//  3. env, in the order of the spec.
//
// A variable is at the position where its name first occurred, with its last value. A kubelet
// passes the same variables to the runtime, in no particular order.
//
// A value in the spec may refer to variables as $(NAME), which stays unchanged if there is no such variable; $$ stands for $. It
// can refer to the variables set before it, services' included. Values from other sources are not expanded.
//
// [Expand] replaces the references in any text, and a [Budget] bounds the bytes that all texts from a container may have.
//
// # Sources
//
// ConfigMaps, Secrets and Services are read through the small interfaces in [Sources], when a container refers to them and at
// most once for each start. An optional reference to a missing object is skipped; a required one is an [*Error] that wraps
// [ErrNotFound], and the start is retried. A source reports that an object does not exist with an error that wraps ErrNotFound,
// or with an API status from client-go. If a source fails for another reason, the call fails, whether or not the reference is
// optional. There is one exception: a static pod starts without service variables if Services fails, because the pod may itself
// be the API server.
//
// No error from this package contains a source's value.
package env

// Where each rule lives:
//
//	resolve.go     MakeEnvironment: the order of the sources, and the env field
//	set.go         the variables, limited to what the kernel accepts for a process
//	fields.go      fields of the pod
//	resources.go   requests and limits
//	services.go    variables of services
//	objects.go     ConfigMaps, Secrets and files, and envFrom
//	downward.go    FieldValue and ResourceValue: the same values for other uses than variables
//	sources.go     Sources, and absent objects
//	expand.go      Expand; budget.go Budget, and the limit on what is read

// Package env has the sources of values from outside a pod: ConfigMaps, Secrets, Services and env
// files. They are part of syncpod.Config, as Objects.Sources.
//
// An agent reads an object when a container refers to it, and at most once for each start. If an
// object of an optional reference does not exist, the reference is skipped; for a required
// reference, the container waits, and the start is retried. A source reports that an object does
// not exist with an error that wraps [ErrNotFound], or with an API status of client-go.
//
// If a source fails for another reason, the container waits, whether or not the reference is
// optional. There is one exception: a static pod starts without the variables of services if
// Services fails, because the pod may itself be the API server.
package env

package source

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// A Source says which pods should run. A Loop may have several: each is ready,
// updated and cleaned up after on its own (kubernetes #105547).
type Source interface {
	// Name tells this source from the others of a Loop; it is never empty and
	// never changes. The annotation runtime.AnnotationConfigSource of each pod
	// delivered has it as its value, so that later, in the runtime, a pod is known
	// to be one of this source's. The pods of a source named
	// runtime.ConfigSourceAPI are those of an API server, all others are static.
	Name() string
	// Run delivers what should run, all of it, as soon as that is known and again
	// each time it has changed, until ctx ends. Calls of deliver never overlap and
	// return soon. An error means that the source has failed and will deliver
	// nothing more, not that the pods it delivered should stop. When ctx ends Run
	// returns nil, and has no goroutine left. It is called once.
	Run(ctx context.Context, deliver func(Snapshot)) error
}

// A Snapshot is all that a source wants at a moment: a pod that is in an earlier
// one and not in this should not run any more.
type Snapshot struct {
	// Pods have the API's defaults, are valid, and no two have the same UID. A Loop does not take a
	// version of a pod that podspec.ValidateQuantities refuses, and reports it as one of Errors. Their
	// order is that in which the source names them, and always the same for the
	// same pods. They are lent: neither side writes to them afterwards, and a pod
	// that has not changed since the last snapshot is the same pointer.
	Pods []*v1.Pod
	// Errors say what could not be read or was refused, each on its own, in an
	// order that is always the same. What was read before in the place of it is
	// still in Pods.
	Errors []error
	// Warnings say what was accepted and is not heeded, as unknown fields.
	Warnings []error
	// Incomplete tells that something could not be read and had not been read
	// before: there may be pods besides Pods that should run. A pod of this source
	// that only the runtime knows may be one of them, and is no orphan.
	Incomplete bool
	// ConfigsChanged tells that ConfigMaps or Secrets which the source has for pods have
	// changed since its last snapshot: what running pods have mounted of them is brought
	// up to date at once, and not only when it is looked at anyway.
	ConfigsChanged bool
}

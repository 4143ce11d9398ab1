package source

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// A Source provides the pods that should run. A Loop may have several sources. Each becomes ready, is updated and is
// cleaned up independently (kubernetes #105547).
type Source interface {
	// Name identifies the source among a Loop's; it is never empty and never changes. It is the
	// value for the annotation runtime.AnnotationConfigSource on each delivered pod, by which a
	// pod in the runtime is recognized as this source's. The pods from a source named
	// runtime.ConfigSourceAPI are an API server's, all others are static.
	Name() string
	// Run delivers the pods that should run, always all: as soon as they are known, and again each
	// time they have changed, until ctx ends. Calls of deliver never overlap and return soon. An
	// error means that the source has failed and will deliver nothing more. It does not mean that the
	// delivered pods should stop. When ctx ends, Run returns nil, and has no goroutine left. Run is
	// called once.
	Run(ctx context.Context, deliver func(Snapshot)) error
}

// A Snapshot is a source's complete desired state: a pod that is in an earlier Snapshot and not
// in this one should no longer run.
type Snapshot struct {
	// Pods have the API's defaults, are valid, and have distinct UIDs. A Loop rejects a pod
	// version that podspec.ValidateQuantities rejects, and reports it like an error in Errors. The
	// order is deterministic. The pods are shared: neither side modifies them afterwards, and a
	// pod that has not changed since the last snapshot is the same pointer.
	Pods []*v1.Pod
	// Errors are the unreadable or rejected objects, each on its own, in a deterministic order.
	// Their previous versions are still in Pods.
	Errors []error
	// Warnings are about accepted but ignored parts, such as unknown fields.
	Warnings []error
	// Incomplete means that something could not be read and had not been read before: more pods
	// than Pods may be desired. A pod from this source that only the runtime knows may be among
	// them, and is not an orphan.
	Incomplete bool
	// Inferred means that the pods are those found at a place, such as files in a folder. No program or server has
	// listed them, and the place may be the wrong one. If a Loop finds none of an earlier agent's pods among them, it
	// stops none; see loop.Config.StopUnknown.
	Inferred bool
	// ConfigsChanged means that ConfigMaps or Secrets from the source have changed since its last
	// snapshot: running pods' volumes are updated immediately, not only at their next regular
	// update.
	ConfigsChanged bool
}

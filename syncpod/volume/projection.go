package volume

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Projections provides the sources of projected volumes that need the certificates API: ClusterTrustBundles and
// PodCertificates. Its methods may be called concurrently, and must not modify their arguments.
type Projections interface {
	// Project returns the files of vol.Projected.Sources[index]. After an error, the files that the volume has are kept,
	// and Project is called again later. It must return when ctx ends. An error must not contain a private key.
	Project(ctx context.Context, pod *v1.Pod, vol *v1.Volume, index int) (Projected, error)
}

// Projected is the content of a source of a projected volume.
type Projected struct {
	// Files are the files by their path in the volume. Their mode and owner are those of tokens.
	Files map[string][]byte
	// Secret means that a file may contain a secret: the volume is kept in memory.
	Secret bool
	// Next is when the files may have changed. Zero means that they change only when the pod changes.
	Next time.Time
}

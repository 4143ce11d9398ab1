package image

import (
	"time"

	"github.com/podsync/podsync/runtime/cri"
)

// Config configures the pulls of images. The zero Config pulls as a kubelet does.
type Config struct {
	// Runtime stores and pulls images. Default: the client of the agent.
	Runtime cri.ImagePuller
	// MaxParallelPulls limits the number of concurrent pulls; further pulls wait in order of
	// arrival. A present image never waits. Default 5; negative means no limit.
	MaxParallelPulls int
	// ShareImages lets every pod use every present image. By default, a pod that uses an image that
	// the agent pulled with a credential needs a credential with which the image was pulled.
	// With other credentials the image is pulled again, and the registry decides, as in a kubelet
	// since v1.35 (KEP-2535).
	ShareImages bool
	// VerifyPreloaded reports whether images of a repository that no agent has pulled need a
	// credential too, or a pull without one. Default: none does, as with a kubelet's policy
	// NeverVerifyPreloadedImages.
	VerifyPreloaded func(repository string) bool
	// Observer is notified of pulls. Default: none.
	Observer Observer
}

// GCPolicy says when unused images are removed. A zero field means the default of a kubelet's
// configuration.
type GCPolicy struct {
	// HighPercent is the usage of the images' file system at which images are removed
	// (imageGCHighThresholdPercent). Default 85; with 100 no image is removed for lack of room.
	HighPercent int
	// LowPercent is the usage down to which images are removed, less than HighPercent
	// (imageGCLowThresholdPercent). Default 80.
	LowPercent int
	// MinAge is how long an image is kept after it was first seen or last used (imageMinimumGCAge).
	// Default 2 min. It protects images that another agent on the same runtime has just pulled.
	MinAge time.Duration
	// MaxAge is how long an unused image is kept at most, however much room there is
	// (imageMaximumGCAge). Default 0, no limit. Time before the agent's first check of images does
	// not count, because the agent knows nothing about it.
	MaxAge time.Duration
}

package image

import (
	"time"

	"github.com/podsync/podsync/runtime/cri"
)

// Settings configures image pulls. The zero Settings pulls as a kubelet does.
type Settings struct {
	// Runtime stores and pulls images. Default: the agent's client.
	Runtime cri.ImagePuller
	// MaxParallelPulls limits the concurrent pulls; further pulls wait in arrival order. A
	// present image never waits. A pull that has run for two minutes does not count, so that a registry
	// that never finishes delays no other for long. Default 5; negative means no limit.
	MaxParallelPulls int
	// ShareImages lets every pod use every present image. By default, if the agent pulled an image
	// with a credential, a pod that uses the image needs a credential with which it was pulled. For
	// a pod with other credentials the image is pulled again, and the registry decides, as in a
	// kubelet since v1.35 (KEP-2535).
	ShareImages bool
	// VerifyPreloaded reports whether a repository's images need a verification although no agent
	// has pulled them: a credential, or a pull without one. Default: no repository does, as with
	// a kubelet's policy NeverVerifyPreloadedImages.
	VerifyPreloaded func(repository string) bool
	// InitialBackOff and MaxBackOff are the first and the longest wait before a failed pull is tried again; the wait doubles
	// each time. Default those of package backoff, 10 s and 5 min.
	InitialBackOff, MaxBackOff time.Duration
	// Observer observes pulls. Default: none.
	Observer Observer
}

// GCPolicy determines when unused images are removed. A zero field means a kubelet's configuration
// default.
type GCPolicy struct {
	// HighPercent is the usage for the images' file system at which the agent starts to remove
	// images (imageGCHighThresholdPercent). Default 85. With 100, no image is removed to free space.
	HighPercent int
	// LowPercent is the usage at which the agent stops removing images. It is less than HighPercent
	// (imageGCLowThresholdPercent). Default 80.
	LowPercent int
	// MinAge is the minimum time for which an image is kept after it was first seen or last used
	// (imageMinimumGCAge). Default 2 min. It protects images that another agent on the same runtime
	// has just pulled.
	MinAge time.Duration
	// MaxAge is the maximum time for which an unused image is kept, whatever space is free
	// (imageMaximumGCAge). Default 0, no limit. Time before the agent's first image check does not
	// count, because the agent does not know whether the image was used then.
	MaxAge time.Duration
}

// Observer observes pulls, once for each pull however many pods wait for it. A pull's goroutine
// calls the Observer and waits for it to return; different pulls call it concurrently. Embed
// NopObserver to implement only some methods.
//
// Use podworkers.Observer and syncpod.Observer for the work on pods, and pleg.Observer for the
// change detection. An agent.Config has this observer as Images.Observer; see syncpod.Observer for
// the others.
type Observer interface {
	// PullStarted is called before the request to the runtime.
	PullStarted(Pull)
	// PullProgress is called every 10 s during a pull, with the time since PullStarted. CRI does not
	// report how many bytes were pulled, only whether the pull has finished.
	PullProgress(Pull, time.Duration)
	// PullFinished is called when the runtime has responded or the pull was cancelled, with the
	// time since PullStarted and the error, if any.
	PullFinished(Pull, time.Duration, error)
}

// Pull is one pull for one image.
type Pull struct {
	// Image is the requested image.
	Image string
	// Waited is how long the pull waited for other pulls to end.
	Waited time.Duration
}

// NopObserver does nothing.
type NopObserver struct{}

// PullStarted does nothing.
func (NopObserver) PullStarted(Pull) {}

// PullProgress does nothing.
func (NopObserver) PullProgress(Pull, time.Duration) {}

// PullFinished does nothing.
func (NopObserver) PullFinished(Pull, time.Duration, error) {}

var _ Observer = NopObserver{}

package image

import "time"

// Observer is told of the pulls a Manager makes, each once however many pods
// wait for it. Calls come from the goroutines of the pulls, concurrently for
// different ones, and hold them up. Embed NopObserver to be told of a part only.
//
// Of the work on pods podworkers.Observer and syncpod.Observer are told, and of how the
// runtime is watched pleg.Observer. A loop.Config takes this one with Sync.Deps.Images, which
// New makes of a Config with an Observer; see syncpod.Observer for the others.
type Observer interface {
	// PullStarted is called before the runtime is asked.
	PullStarted(Pull)
	// PullProgress is called every Config.ProgressInterval while the runtime
	// pulls. CRI reports no bytes: what is known is that it is not done yet.
	PullProgress(Pull, time.Duration)
	// PullFinished is called when the runtime has answered or the pull was
	// cancelled, with the time since PullStarted and the error, if any, as
	// EnsureImage reports it.
	PullFinished(Pull, time.Duration, error)
}

// Pull is one pull of one image.
type Pull struct {
	// Image is what the runtime is asked for.
	Image string
	// Waited is how long the pull waited for others to end.
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

package image

import "time"

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

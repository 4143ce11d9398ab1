// Package image has the settings of an agent's images: [Config] for pulls, and [GCPolicy] for the
// removal of unused images. It also has the errors of pulls, and the [Observer] that is notified of
// pulls.
//
// An agent sets them in the fields Images and ImagePolicy of its Config:
//
//	agent.Config{
//		Images:      image.Config{MaxParallelPulls: 3},
//		ImagePolicy: image.GCPolicy{HighPercent: 90, MaxAge: 30 * 24 * time.Hour},
//	}
package image

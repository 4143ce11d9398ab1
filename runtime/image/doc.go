// Package image has the settings of an agent's images: [Settings] for pulls, and [GCPolicy] for the
// removal of unused images. It also has the errors of pulls, and the [Observer] that is notified of
// pulls.
//
// An agent sets them in the fields Images and ImagePolicy of its Settings:
//
//	agent.Config{
//		Images:      Settings{MaxParallelPulls: 3},
//		ImagePolicy: GCPolicy{HighPercent: 90, MaxAge: 30 * 24 * time.Hour},
//	}
package image

// Package image has the settings of an agent's images: [Config] of their pulls, and [GCPolicy] of their removal. It
// has the errors of pulls, too, and the [Observer] that is notified of them.
//
// An agent sets them in the fields Images and ImagePolicy of its Config:
//
//	agent.Config{
//		Images:      image.Config{MaxParallelPulls: 3},
//		ImagePolicy: image.GCPolicy{HighPercent: 90, MaxAge: 30 * 24 * time.Hour},
//	}
package image

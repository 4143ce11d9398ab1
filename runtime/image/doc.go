// Package image ensures that container images are present. It applies the pull policy, selects registry credentials, merges
// concurrent pulls for one image, limits concurrent pulls, and backs off after failures. A program that creates containers
// imports it for pulls, access and disk space.
//
// The reasons in container statuses are a kubelet's, verbatim, because people and tools look for them. Known kubelet defects are
// avoided:
//
//   - A pull, queued or running, is cancelled as soon as no pod needs the image any more; deleting a
//     pod waits for neither (kubernetes #125050).
//   - A changed secret is tried immediately, without the back-off of the old one
//     (kubernetes #119891).
//   - Waiting for other pulls is not reported as a failed pull (kubernetes #112044).
//   - A present image that need not be pulled again never waits for pulls of others
//     (kubernetes #83471).
//   - An image that was just found is not removed before a container uses it
//     (kubernetes #123631); see Leases.
//
// # Taken alone
//
// [Manager.EnsureImageExists] is a kubelet's EnsureImageExists, and a [Collector] its imageGCManager. The Manager needs two calls
// to an image service, which may be the caller's own, and no pod status; errors from the service that are no gRPC errors count as
// a failed pull. It needs no API defaults, and a pod's UID only so that pods do not share a back-off:
//
//	images, err := image.New(image.Config{Settings: image.Settings{Runtime: service}})
//	img, err := images.EnsureImageExists(ctx, image.Request{Image: c.Image, PodUID: pod.UID, Secrets: secrets})
//	defer img.Release() // when the container is created
//
// Package keyring finds credentials without a Manager.
//
// # Garbage collection
//
// [DecideGC] decides which images to remove because the disk is full or they have been unused for
// long, by a [GCPolicy]. A [Collector] removes them, in a
// pass that its owner starts periodically. An image is in use if a container has it, of any agent,
// running or not, or if it is about to be used, which the Collector learns from the [Leases] that
// it shares with the Manager. Pinned images and the sandbox image are kept.
//
// While there is room, a pass makes one call and lists nothing; the last use comes from leases and from a
// runtime.Cache. From GCPolicy's LowPercent on, the pass lists images, so that their age is known before they must
// be removed.
//
// # Settings
//
// [Settings] and [GCPolicy] are what a node's operator chooses. An agent has them in two fields of its Config:
//
//	agent.Config{
//		Images:      image.Settings{MaxParallelPulls: 3},
//		ImagePolicy: image.GCPolicy{HighPercent: 90, MaxAge: 30 * 24 * time.Hour},
//	}
//
// An [Observer] observes pulls and removals. An [*Error] has a failed pull's reason.
//
// # Access and cost
//
// An image that was pulled with a pod's secret is unavailable to pods without that secret, although
// it is present (KEP-2535); see Settings.ShareImages. With a Config.Dir this survives agent restarts:
// the Manager records a pull with a credential before it asks the runtime, and the grant before it
// deletes that record. If a record cannot be read, credentials are verified again.
//
// A present image costs one CRI call, a pulled one three: after the pull the image is inspected.
//
// Credentials come from pull secrets only. They are never printed; errors from a runtime that repeat
// them are redacted.
package image

// Where each rule lives:
//
//	manager.go           Config, New
//	ensure.go            EnsureImageExists: present or pulled, and leased
//	reference.go         names of images, and which are equivalent
//	credential.go        credentials as the runtime and the records have them, and out of errors
//	access.go            whether a pod may use a present image; access_file.go
//	                     persists that
//	retry.go             the back-off of pulls
//	flight.go            one pull for concurrent requests of the same image
//	pull.go              the pull itself
//	lease.go             protects an image that was just found from removal
//
//	garbage.go           which images to remove: a pure decision
//	collector.go         Collector, and a pass; disk_*.go the usage of the disk
//	collector_look.go    lists images, and which are in use
//	collector_remove.go  removes images, and backs off after failures
//	uses.go              when images were last used
//	settings.go          Settings, GCPolicy, Observer; errors.go Error

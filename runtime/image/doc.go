// Package image makes sure that the images of containers are there: by the pull
// policy, with the right registry credentials, once for all who want the same at
// the same time, not too many at once, and not again too soon after a failure.
//
// The reasons for which a container waits are a kubelet's, word for word, because
// people and tools look for them in a pod's status. What a kubelet is known to do
// badly is done otherwise:
//
//   - A pull, and a wait for a turn to pull, end as soon as nobody wants the image
//     any more; deleting a pod does not wait for either (kubernetes #125050).
//   - A changed secret is tried at once, not after the back-off of the old one
//     (kubernetes #119891).
//   - Having to wait for other pulls is not a failed pull (kubernetes #112044).
//   - An image that is there, and need not be pulled again, never waits behind one
//     that is pulled (kubernetes #83471).
//   - An image just found is not removed before a container uses it
//     (kubernetes #123631); see Leases.
//
// # Garbage
//
// [DecideGC] says which images may go, because the disk gets full or they were not
// used for long, by the thresholds and ages of a kubelet's configuration. A [Collector]
// removes them, in a pass that its owner calls every so often. An image is in use if
// any container has it, whosever it is, running or not, or if it is about to be used,
// which the [Leases] show that a Collector shares with the Manager. The image that
// sandboxes are made of stays, and so does what is pinned.
//
// While there is room a pass is one call, and lists nothing; when images were used last
// is known from leases, and from what a runtime.Cache knows. From GCPolicy's
// LowPercent on they are listed, to be known for long enough when the time comes.
//
// # Where each rule lives
//
//	manager.go           Config, New; observer.go what it tells, errors.go why containers wait
//	ensure.go            EnsureImage: present or pulled, and leased
//	policy.go            the pull policy
//	reference.go         names of images, and which are the same
//	keyring.go           which credentials go with a name; redact.go keeps them out of errors
//	access.go            whether a pod may use an image that is there; access_file.go
//	                     keeps that over restarts of the agent
//	retry.go             the back-off of pulls
//	flight.go            one pull for all who want the same
//	pull.go              the pull itself, in its turn
//	lease.go             an image just found is not removed
//
//	garbage.go           which images may go: a pure decision
//	collector.go         Collector, and a pass; disk_*.go how full the disk is
//	collector_look.go    what is there and in use
//	collector_remove.go  one image after another, and what if that fails
//	uses.go              when images were used last
//
// # Access and cost
//
// An image that a pod's secret has opened stays closed to pods without it, although
// it is there (KEP-2535); see Config.ShareImages. With a Config.Dir that holds over restarts
// of the agent: a pull with a credential is recorded before the runtime is asked, and who may
// use the image before the pull is forgotten. Where a record cannot be read, credentials are
// verified again.
//
// An image that is there costs one CRI call, one that is pulled costs three: it is
// looked at once more, to return what was pulled.
//
// Credentials come from pull secrets alone. They are never printed, and errors of
// a runtime that repeat them are handed on without.
package image

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
// An image that a pod's secret has opened stays closed to pods without it, although
// it is there (KEP-2535); see Config.ShareImages. This is remembered in memory.
//
// An image that is there costs one CRI call, one that is pulled costs three: it is
// looked at once more, to return what was pulled.
//
// Credentials come from pull secrets alone. They are never printed, and errors of
// a runtime that repeat them are handed on without.
package image

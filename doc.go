// Package podsync is the part of a Kubernetes node agent that makes pods run: it
// compares the pod that should be with what the container runtime reports,
// decides as a kubelet does, and acts over CRI. It is a library.
//
// This package holds no code. The packages below can be used one by one.
//
// # What you bring
//
//  1. Pods: v1.Pod values, from wherever you have them.
//  2. A connection to a runtime that speaks CRI v1 (containerd, CRI-O).
//  3. What you know of probes, and what you want done with status and events.
//
// # What you get
//
// In the order in which a pod passes through them:
//
//   - [github.com/podsync/podsync/podworkers]: where each pod stands in its life,
//     and what is to be done for it next. It never runs two things for one pod,
//     never loses a request to stop, and answers each.
//   - [github.com/podsync/podsync/runtime]: the pod as its runtime reports it.
//   - [github.com/podsync/podsync/actions]: what the pod needs next, as a plan
//     with reasons that can be printed and tested.
//   - [github.com/podsync/podsync/backoff]: when something that failed may be
//     tried again.
//   - [github.com/podsync/podsync/sandbox]: the sandbox of a pod as CRI wants it
//     configured: names, hostname, DNS, security, resources.
//   - [github.com/podsync/podsync/syncpod/container]: the same for each container,
//     and its environment in [github.com/podsync/podsync/syncpod/container/env].
//   - [github.com/podsync/podsync/syncpod/apistatus]: the status to report of the
//     pod, which never takes back what was reported before.
//   - [github.com/podsync/podsync/syncpod/podspec]: what follows from a pod's spec
//     alone.
//
// All of these are pure: they open nothing, start nothing, log nothing, read no
// clock, hold no globals, and never write to what they are given. Then the edge,
// which does make calls:
//
//   - [github.com/podsync/podsync/runtime/cri]: a connection to a runtime, the
//     classes of its errors, its events, and pod statuses with few calls.
//   - [github.com/podsync/podsync/runtime/image]: is the image of a container
//     there: pull policy, credentials, back-off, parallel pulls.
//   - [github.com/podsync/podsync/sandbox.Runner]: sandboxes made, stopped and
//     removed so that no lost answer leaves two of them, or none for ever.
//   - [github.com/podsync/podsync/runtime/cri/critest]: a runtime in memory, for
//     tests of all this and of your agent: without root, in virtual time, with
//     every fault a runtime is known for.
//
// docs/PARITY.md lists every decision that is not the kubelet's, with the
// upstream issue.
package podsync

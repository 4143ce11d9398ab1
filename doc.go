// Package podsync is the part of a Kubernetes node agent that makes pods run: it
// compares the pod that should be with what the container runtime reports,
// decides, acts over CRI, and tells what happened. It decides as a kubelet does,
// and it is a library.
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
// clock, hold no globals, and never write to what they are given. So all of an
// agent's decisions can be tested without a runtime, without root and without
// waiting.
//
// docs/PARITY.md lists every decision that is not the kubelet's, with the
// upstream issue.
package podsync

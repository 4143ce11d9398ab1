// Package podsync is the part of a Kubernetes node agent that makes pods run: it
// compares the pod that should be with what the container runtime reports,
// decides as a kubelet does, and acts over CRI. It is a library: it opens no port,
// reads no flag, owns no global, and its constructors start nothing.
//
// This package holds no code. Begin with [github.com/podsync/podsync/syncpod/loop],
// which is a whole agent, and with the programs in examples; or use the packages
// below one by one.
//
// # What you bring
//
//  1. Pods: v1.Pod values from wherever you have them, or a folder of manifests.
//  2. A runtime that speaks CRI v1: containerd, CRI-O, or the one in memory.
//  3. A directory for what the agent makes and remembers.
//  4. If you want: where statuses and events go, what decides on admission, and the
//     other parts of a node that [github.com/podsync/podsync/syncpod.Config] has a
//     field for.
//
// # What you get
//
// Pods that run as a kubelet runs them, and keep running when your agent does not:
//
//   - [github.com/podsync/podsync/syncpod/loop]: sources of pods and news of the
//     runtime in, work on pods out, and what is left of pods removed. The least that
//     an agent is made of is examples/minimal, one to run is examples/nodeagent.
//   - [github.com/podsync/podsync/syncpod/source]: the pods that should run, from a
//     folder of manifests, from the program itself, or from a source of your own.
//   - [github.com/podsync/podsync/podworkers]: where each pod stands in its life,
//     and a goroutine for each that there is work on. It never does two things for
//     one pod, never loses a request to stop, and answers each.
//   - [github.com/podsync/podsync/syncpod]: the work itself: one pod, from what
//     should be to what is, and to its end.
//
// # What decides
//
// These are pure: they open nothing, start nothing, log nothing, read no clock, and
// never write to what they are given.
//
//   - [github.com/podsync/podsync/actions]: what a pod needs next, as a plan with
//     reasons that can be printed and tested.
//   - [github.com/podsync/podsync/backoff]: when something that failed may be
//     tried again.
//   - [github.com/podsync/podsync/syncpod/apistatus]: the status to report of a
//     pod, which never takes back what was reported before.
//   - [github.com/podsync/podsync/syncpod/container]: the CRI configuration of a
//     container, and its environment in
//     [github.com/podsync/podsync/syncpod/container/env].
//   - [github.com/podsync/podsync/syncpod/cgroup]: the cgroups of pods and of their
//     classes, by name for both drivers, and what stands in their files.
//   - [github.com/podsync/podsync/syncpod/resize]: whether a pod is allotted other
//     resources that it asks for while it runs, and what it is allotted until then.
//   - [github.com/podsync/podsync/syncpod/eviction]: who has to go when the node runs
//     short of memory, disk or processes.
//   - [github.com/podsync/podsync/syncpod/shutdown]: in which order pods stop before
//     their node is switched off.
//   - [github.com/podsync/podsync/syncpod/podspec]: the API's defaults, validation
//     and the identity of static pods, for pods that no API server has seen, and
//     their quality of service in [github.com/podsync/podsync/syncpod/podspec/qos].
//
// # What acts
//
//   - [github.com/podsync/podsync/runtime]: pods as their runtime reports them, and
//     the cache that says how old that is.
//   - [github.com/podsync/podsync/runtime/cri]: a connection to a runtime, the
//     classes of its errors, its events, and pod statuses with few calls.
//   - [github.com/podsync/podsync/runtime/pleg]: when to look at which pod: at once
//     where the runtime streams events, by lists where it does not.
//   - [github.com/podsync/podsync/runtime/image]: is the image of a container
//     there: pull policy, credentials, back-off, parallel pulls; and which images may
//     go when the disk fills.
//   - [github.com/podsync/podsync/sandbox]: the sandbox of a pod: its configuration,
//     which is pure, and made, stopped and removed so that no lost answer leaves
//     two of them, or none for ever.
//   - [github.com/podsync/podsync/syncpod/internal/poddir]: a pod's directories, its
//     /etc/hosts and its termination messages.
//   - [github.com/podsync/podsync/syncpod/volume]: the volumes that a node makes by
//     itself, from emptyDir to projected.
//   - [github.com/podsync/podsync/syncpod/cgroup/tree]: the cgroups of pods, made,
//     kept up to date and removed with what runs in them.
//   - [github.com/podsync/podsync/syncpod/device]: what containers were given of the
//     devices of the node, kept over restarts.
//   - [github.com/podsync/podsync/syncpod/internal/hook]: postStart and preStop handlers.
//   - [github.com/podsync/podsync/syncpod/probe]: startup, liveness and readiness
//     probes.
//   - [github.com/podsync/podsync/syncpod/internal/pressure]: the node is looked after: what
//     nobody needs is removed, and pods are evicted, when it runs short.
//   - [github.com/podsync/podsync/runtime/logs]: what containers have printed, as
//     kubectl logs wants it: its end, its beginning at some time, or followed.
//   - [github.com/podsync/podsync/runtime/oom]: processes that the kernel kills because
//     memory runs out are told, of containers and of the node.
//   - [github.com/podsync/podsync/syncpod/internal/rotate]: logs that are full are rotated
//     away, compressed and in the end removed, without the loss of a line.
//   - [github.com/podsync/podsync/syncpod/internal/gc]: dead containers, sandboxes and logs
//     that nothing depends on are removed.
//
// # What shows it
//
//   - [github.com/podsync/podsync/syncpod/server]: the HTTP API of a kubelet: logs, exec,
//     attach, port-forward and lists of pods, for those that you let in.
//
// # How you test it
//
// [github.com/podsync/podsync/runtime/cri/critest] is a runtime in memory, for tests
// of all this and of your agent: without root, in virtual time, with every fault a
// runtime is known for. examples/downstream shows such tests.
//
// docs/FAILURES.md explains the names of failures, such as S1 or W3, that comments
// and tests speak of. docs/PARITY.md lists every decision that is not the kubelet's,
// with the upstream issue.
package podsync

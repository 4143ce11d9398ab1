// Package podsync is a kubelet's pod sync loop as a library: it compares the desired pods
// with the container runtime's state, decides the next steps as a kubelet does, and carries them
// out over CRI. It opens no port, reads no flag and has no global state, and its constructors
// start nothing.
//
// This package has no code. Start with [github.com/podsync/podsync/syncpod/agent],
// which is a whole agent, and with the programs in examples. Each public
// package below can also be used alone; those below internal are listed to
// show where a rule is.
//
// # What you need
//
//  1. Pods: v1.Pod values from wherever you have them, or a folder of manifests.
//  2. A runtime that speaks CRI v1: containerd, CRI-O, or the one in memory.
//  3. A directory for the agent's files.
//  4. Optionally: receivers for statuses and events, an admission check, and the
//     other parts of a node that [github.com/podsync/podsync/syncpod.Config] has
//     fields for.
//
// # What you get
//
// Pods that run as on a kubelet, and keep running while your agent does not:
//
//   - [github.com/podsync/podsync/syncpod/agent]: a whole node agent with the defaults of
//     a kubelet. examples/minimal is the smallest agent, examples/nodeagent one to run.
//   - [github.com/podsync/podsync/syncpod/loop]: the core of an agent. It connects sources
//     of pods, the runtime, the pod workers and syncpod.
//   - [github.com/podsync/podsync/syncpod/source]: the pods that should run, from a
//     folder of manifests, from the program itself, or from your own source.
//   - [github.com/podsync/podsync/podworkers]: each pod's phase, and a
//     goroutine for each pod with pending work. It makes one call for a pod at a
//     time, and answers each stop request.
//   - [github.com/podsync/podsync/syncpod]: one sync of one pod: it brings the
//     pod to its desired state, and stops it.
//
// # Packages that decide
//
// These packages are pure: they open no file, start no goroutine, do not log, read no clock, and
// do not modify their arguments.
//
//   - [github.com/podsync/podsync/actions]: a pod's next steps, as a plan with
//     reasons that can be printed and tested.
//   - [github.com/podsync/podsync/backoff]: the time of the next attempt after a
//     failure.
//   - [github.com/podsync/podsync/syncpod/status]: the status to report of a
//     pod. It never contradicts the previously reported one.
//   - [github.com/podsync/podsync/syncpod/container]: the CRI
//     configuration of a container, and its environment in
//     [github.com/podsync/podsync/syncpod/container/env].
//   - [github.com/podsync/podsync/syncpod/cgroup]: the cgroups for pods and QoS
//     classes: their names for both drivers, and what their files contain.
//   - [github.com/podsync/podsync/syncpod/resize]: whether an in-place resize is
//     accepted, and each pod's allocated resources.
//   - [github.com/podsync/podsync/syncpod/eviction]: which pod is evicted when the
//     node runs low on memory, disk or processes.
//   - [github.com/podsync/podsync/syncpod/shutdown]: the order in which pods
//     stop in a node shutdown.
//   - [github.com/podsync/podsync/syncpod/podspec]: the API's defaults, validation
//     and the identity that static pods get, for pods that no API server has seen, and
//     their quality of service in [github.com/podsync/podsync/syncpod/podspec/qos].
//
// # Packages that act
//
//   - [github.com/podsync/podsync/runtime]: the pods as the runtime reports them,
//     and a cache of their statuses.
//   - [github.com/podsync/podsync/runtime/cri]: a connection to a runtime, the
//     classes of its errors, and the owners of pods.
//   - [github.com/podsync/podsync/runtime/reader]: reads pods from a
//     runtime, with few calls.
//   - [github.com/podsync/podsync/runtime/stats]: reads what the node, pods
//     and containers use.
//   - [github.com/podsync/podsync/runtime/pleg]: finds the pods that have
//     changed, from events and lists.
//   - [github.com/podsync/podsync/runtime/image]: pulls and removes images.
//   - [github.com/podsync/podsync/sandbox/run]: creates, stops and removes
//     the sandbox of a pod. A lost response results neither in two sandboxes nor in none forever.
//     [github.com/podsync/podsync/sandbox] computes its configuration.
//   - [github.com/podsync/podsync/syncpod/poddir]: a pod's directories, its
//     /etc/hosts and its termination messages.
//   - [github.com/podsync/podsync/syncpod/volume/local]: the volumes that
//     an agent creates itself, from emptyDir to projected.
//   - [github.com/podsync/podsync/syncpod/cgroup/tree]: creates, updates and removes the
//     cgroups of pods.
//   - [github.com/podsync/podsync/syncpod/device]: persists the allocation of the
//     node's devices to containers.
//   - [github.com/podsync/podsync/syncpod/lifecycle/handler]: postStart and preStop handlers.
//   - [github.com/podsync/podsync/syncpod/probe]: startup, liveness and readiness
//     probes.
//   - [github.com/podsync/podsync/syncpod/eviction/manager]: reclaims unused resources
//     and evicts pods when the node runs low.
//   - [github.com/podsync/podsync/runtime/logs]: reads container logs, with the
//     options that kubectl logs has.
//   - [github.com/podsync/podsync/syncpod/oom]: reports processes that the kernel kills
//     because a container or the node runs out of memory.
//   - [github.com/podsync/podsync/runtime/logs/rotate]: rotates, compresses and
//     removes logs without losing a line.
//   - [github.com/podsync/podsync/runtime/gc]: removes dead containers, sandboxes
//     and logs.
//
// # Access
//
//   - [github.com/podsync/podsync/syncpod/server]: a kubelet's HTTP API: logs, exec,
//     attach, port-forward and pod lists, for authorized callers.
//   - [github.com/podsync/podsync/syncpod/page]: a live web page about the pods, for the
//     person who operates the machine.
//
// # Tests
//
// [github.com/podsync/podsync/runtime/cri/critest] is a runtime in memory, to test podsync
// and your agent: without root, in virtual time, with the known runtime faults.
// examples/downstream has such tests.
//
// docs/FAILURES.md explains failure names in comments and tests, such as S1 or W3.
// docs/PARITY.md lists every deliberate deviation from a kubelet, with the upstream
// issue.
package podsync

// Package podsync is the part of a Kubernetes node agent that makes pods run: it
// compares the pod that should be with what the container runtime reports,
// decides as a kubelet does, and acts over CRI. It is a library: it opens no port,
// reads no flag, owns no global, and its constructors start nothing.
//
// This package holds no code. Begin with [github.com/podsync/podsync/syncpod/agent],
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
//   - [github.com/podsync/podsync/syncpod/agent]: a whole node agent with the defaults of
//     a kubelet. examples/minimal is the smallest agent, examples/nodeagent one to run.
//   - [github.com/podsync/podsync/syncpod/loop]: the core of an agent. It connects sources
//     of pods, the runtime, the pod workers and syncpod.
//   - [github.com/podsync/podsync/syncpod/source]: the pods that should run, from a
//     folder of manifests, from the program itself, or from a source of your own.
//   - [github.com/podsync/podsync/podworkers]: the phase of each pod, and a
//     goroutine for each pod with pending work. It never makes two calls for one pod at a
//     time, never loses a stop request, and answers each.
//   - [github.com/podsync/podsync/syncpod]: one sync of one pod: it brings the
//     pod to its desired state, and stops it.
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
//   - [github.com/podsync/podsync/internal/base/apistatus]: the status to report of a
//     pod, which never takes back what was reported before.
//   - [github.com/podsync/podsync/internal/base/containerconfig]: the CRI
//     configuration of a container, and its environment in
//     [github.com/podsync/podsync/internal/base/environ]; the sources of ConfigMaps and
//     Secrets are in [github.com/podsync/podsync/syncpod/container/env].
//   - [github.com/podsync/podsync/internal/base/podcgroup]: the cgroups of pods and of their
//     classes, by name for both drivers, and what stands in their files.
//   - [github.com/podsync/podsync/syncpod/resize]: whether a pod is allocated other
//     resources that it asks for while it runs, and what it is allocated until then.
//   - [github.com/podsync/podsync/internal/base/evict]: which pod is evicted when the
//     node runs low on memory, disk or processes; its thresholds are in
//     [github.com/podsync/podsync/syncpod/eviction].
//   - [github.com/podsync/podsync/syncpod/internal/shutdownorder]: in which order pods
//     stop before their node is switched off.
//   - [github.com/podsync/podsync/syncpod/podspec]: the API's defaults, validation
//     and the identity of static pods, for pods that no API server has seen, and
//     their quality of service in [github.com/podsync/podsync/syncpod/podspec/qos].
//
// # What acts
//
//   - [github.com/podsync/podsync/runtime]: the pods as the runtime reports them,
//     and a cache of their statuses.
//   - [github.com/podsync/podsync/runtime/cri]: a connection to a runtime, the
//     classes of its errors, and pod statuses with few calls.
//   - [github.com/podsync/podsync/runtime/pleg]: how changes of
//     pods are detected: the settings, the observer and the health of the watch.
//   - [github.com/podsync/podsync/runtime/image]: how images are pulled, and when
//     unused ones are removed: the settings, the errors and the observer.
//   - [github.com/podsync/podsync/internal/base/sandboxes]: creates, stops and removes
//     the sandbox of a pod. A lost response never leaves two sandboxes, or none forever.
//     Its configuration is of [github.com/podsync/podsync/internal/base/sandboxconfig].
//   - [github.com/podsync/podsync/syncpod/internal/poddir]: a pod's directories, its
//     /etc/hosts and its termination messages.
//   - [github.com/podsync/podsync/syncpod/internal/localvolume]: the volumes that a
//     node makes by itself, from emptyDir to projected.
//   - [github.com/podsync/podsync/syncpod/cgroup/tree]: the cgroups of pods, made,
//     kept up to date and removed with what runs in them.
//   - [github.com/podsync/podsync/syncpod/device]: persists the allocation of the
//     node's devices to containers.
//   - [github.com/podsync/podsync/syncpod/internal/hook]: postStart and preStop handlers.
//   - [github.com/podsync/podsync/syncpod/internal/prober]: startup, liveness and readiness
//     probes.
//   - [github.com/podsync/podsync/syncpod/internal/pressure]: reclaims unused resources
//     and evicts pods when the node runs low.
//   - [github.com/podsync/podsync/runtime/logs]: reads container logs, with the
//     options of kubectl logs.
//   - [github.com/podsync/podsync/syncpod/internal/oom]: reports processes that the kernel kills
//     because a container or the node runs out of memory.
//   - [github.com/podsync/podsync/syncpod/internal/rotate]: rotates, compresses and
//     removes logs without losing a line.
//   - [github.com/podsync/podsync/syncpod/internal/gc]: removes dead containers, sandboxes
//     and logs.
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

// Package loop keeps the pods on a node running: it connects sources, workers, statuses and the pod life. Package
// [github.com/podsync/podsync/syncpod/agent] adds the other parts of a kubelet: probes, log rotation, garbage
// collection, evictions and events of OOM kills. A program imports it when it wants an agent without the parts
// that package agent adds.
//
// The sources of a [Loop] deliver the pods that should run, and the runtime reports the containers that run. The Loop
// passes both to package podworkers, which calls package syncpod:
//
//	Source ─┐                                    ┌─> stored statuses
//	Source ─┴─> Loop ──> podworkers ──> syncpod ─┴─> Sink
//	             ^           │            │
//	             └── watch <─┴────────────┴──> runtime
//
// # Sources
//
// A source delivers all its pods after each change; package [github.com/podsync/podsync/syncpod/source] has several
// sources, and the interface for others. Sources are independent: a pod that its source does not want any more is
// stopped. A pod of the runtime that no source wants is stopped as soon as its own source has delivered, whatever the
// other sources' state is (kubernetes #105547, #140257). An empty or wrong folder stops no pod from an earlier agent;
// see Config.StopUnknown.
//
// # A pod
//
// A pod is identified by its UID. A new pod that already runs is adopted; otherwise [Admission] decides, in the order
// of creation. A pod whose UID belongs to a pod that is still stopping waits for its end, and so does a static pod for
// another static pod of its name. A pod that no source wants any more is stopped within its grace period, cleaned up,
// and removed from the runtime.
//
// # Restarts
//
// When the context of [Loop.Run] ends, the agent detaches: the pods keep running. The next agent reads the running
// containers from the runtime, and the stored statuses below Config.Root: it adopts running pods without a change, and
// finished pods stay finished. With a Root it lists the runtime, and inspects only pods whose state has changed since.
// It stops no pod before the pod's source has delivered. Once all sources have delivered, it deletes the records and
// directories of pods that no longer exist. [Loop.Drain] stops the pods first.
//
// # Files
//
// The files that outlive the agent are below Config.Root, by Pod UIDs:
//
//	pods/<uid>/           the directory of a pod, see package poddir
//	statuses/<uid>.json   the last status of a pod, and of the runtime, read when Run begins
//	records/<uid>.json    the record of a pod, read when the work on the pod begins
//
// # While the runtime is unavailable
//
// The agent makes no calls except that it checks, at growing intervals of up to 5 s, whether the runtime is available,
// however many pods there are. Then it lists the runtime once, and all work continues. If a pod is deleted in the
// meantime, its grace period begins with the deletion, even before the runtime's first response. With a Root, the
// grace period continues over restarts of the agent.
//
// # No polling
//
// A source snapshot, an event from the runtime and the end of a pod cause work immediately. The agent retries failures
// by itself.
package loop

// The way of a pod, in the order of the files:
//
//	config.go     Config, its defaults, and the interfaces of what an embedder passes
//	loop.go       New connects the parts, and Run starts them
//	feed.go       the last snapshot of each source, the pods that all of them want, and whether a source may stop
//	              the pods of an earlier agent
//	reconcile.go  compares them with the pods of the workers: stop, update, add
//	table.go      the pods that the workers know; which changes of a pod count
//	work.go       the calls of the workers in the order of a pod's life: SyncPod and the others, and the
//	              progress of the work
//	inspect.go    reads of pods, for which work waits while the runtime is unavailable; they use the statuses of
//	              an earlier agent
//	status.go     the state of each pod: its status is kept, stored and passed on, and read at the start
//	housekeeping.go  reports orphans to the workers: pods that no source wants, and containers that run although
//	              their pod has ended
//	stop.go       KillPod, Drain and Shutdown
//
//	events.go     a queue before the event recorder
//	pods.go, health.go  the state of each pod and of the agent, for the embedder and the parts
//	preview.go    what a snapshot of a source would change

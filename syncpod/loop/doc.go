// Package loop keeps pods running on a node: it puts the parts of podsync together to
// an agent.
//
// A [Loop] is told by its sources which pods should run, and by the runtime what does.
// It hands both to package podworkers, which has package syncpod do the work:
//
//	Source ─┐                                  ┌─> StatusStore
//	Source ─┼─> Loop ──> podworkers ──> syncpod ─┴─> Sink
//	        │    ^           │ Fresh      │
//	        │    └── pleg <──┴────────────┴──> runtime
//
// # Where each rule lives
//
//	loop.go        New, Run, Drain, KillPod
//	shutdown.go    Shutdown: pods stop in the order of their priority
//	feed.go        what each source has said, and what all of them want
//	reconcile.go   that is compared with what the workers know: stop, update, add
//	table.go       the pods that the workers know
//	notices.go     log lines and events about pods and the node
//	evictor.go     how a pressure.Manager looks after the node
//	oom.go         what is told of processes that were killed for lack of memory
//	admitted.go    who runs beside a new pod, for an Admission
//	worker_pod.go  one pod that the workers know; what of a pod counts as a change
//	state.go       what is known of each pod, besides its definition
//
//	housekeeping.go  the workers are told of orphans: pods that no source wants, and
//	               containers that run though their pod has ended
//	remove.go      RemovePod removes what the node has of a pod
//	collect.go     collectors: of what pods leave, and of images
//
//	work.go        the work on a pod, done with package syncpod
//	reader.go      reads of a pod begin with what an earlier agent has seen;
//	               looks.go is how work looks at them
//	available.go   work waits while the runtime is away
//	observer.go    how the work goes
//	sink.go        what is reported: remembered, stored, handed on
//	events.go      events wait for the recorder, and nothing else does
//	pods.go, health.go  what has become of each pod, for the embedder
//
//	config.go      Config; config_client.go makes of the Client what is missing,
//	               parts.go are the interfaces in it
//	store.go       StatusStore; store_file.go keeps it in files, restore.go reads it first of all
//
// # Sources
//
// A source delivers all that it wants each time something of it changes; package
// [github.com/podsync/podsync/syncpod/source] has two, and the interface for others. Each is
// ready, updated and cleaned up after on its own: what it does not want any more is
// stopped, and what the runtime has of a pod that nobody wants once the source that
// the pod was from has spoken, whatever becomes of other sources (kubernetes #105547,
// #140257).
//
// # A pod
//
// A pod is known by its UID. One that is new is adopted if it runs already, and
// otherwise asked for with [Admission], in the order of creation. One with the UID of a
// pod that is still stopping waits for the end of it, and so does a static pod for
// another of its name. When a pod is not wanted any more it is stopped within its grace
// period, cleaned up after, and what the runtime has of it is removed.
//
// # Restarts
//
// When the context of [Loop.Run] ends the agent detaches: pods go on. The next one
// learns from the runtime what runs, and from the [StatusStore] what was reported:
// running pods are adopted as they are, finished ones stay finished. The runtime lists what there
// is, and is asked for nothing that an earlier agent saw in the same state, if the store is a
// [RuntimeStatusStore]. Nothing is
// stopped before the source has spoken that could want it. What is kept of a pod that
// went meanwhile is deleted, its directory included, once all sources have spoken.
// [Loop.Drain] stops the pods first.
//
// # When the node runs short
//
// With a Config.EvictionPolicy the node is looked at every 10 s. If it has too little left
// of memory, disk or processes, what nobody needs is removed, and then one pod after the other
// goes, as package [github.com/podsync/podsync/syncpod/eviction] decides; a pod that exceeds its
// limits of storage goes, too. It is reported as Failed with the reason Evicted, and not started
// again. Static and critical pods stay. Meanwhile new pods are refused. [Loop.Pressure] has the
// conditions of the node, and says why which pod goes or stays. With a Config.OOM processes
// that the kernel kills for lack of memory become events.
//
// # Files
//
// What outlives the agent is below Config.Root, by the UIDs of pods:
//
//	pods/<uid>/           a pod's directory, see package poddir
//	statuses/<uid>.json   what was reported of a pod, by this agent and by the runtime: [FileStore],
//	                      read when Run begins
//	evictions/<uid>.json  an eviction that has not ended, with an EvictionPolicy
//	records/<uid>.json    what the work on a pod has to remember: syncpod.FileRecords,
//	                      read when the work on it begins
//
// # While the runtime is away
//
// Nothing is asked of it but whether it is back, at growing intervals of up to 5 s,
// however many pods there are. Then it is listed, and all goes on at once. A pod that is
// deleted meanwhile has its time all the same: it runs from when the source has said so,
// also if the runtime has yet to answer for the first time, and with a Root, or
// Sync.Deps.Records, over restarts of the agent.
//
// # Nothing waits for a poll
//
// News of a source is work for a pod the moment it is delivered, and so are an event of
// the runtime and the end of a pod. What fails comes back by itself.
package loop

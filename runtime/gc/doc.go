// Package gc removes dead containers, unused sandboxes and old logs: a container that crashes leaves a dead instance and a log
// with each restart. When no source has a terminated pod any more, the pod worker removes its containers and sandboxes, and
// this package removes its logs. This package also removes the containers, the sandboxes and then the logs from pods that were
// evicted or deleted and have stopped, although a source still has them. A program with its own loop imports it so that dead
// containers and logs do not fill the disk.
//
// [Decide] returns a pod's garbage. It is a pure function on the status that the runtime reports. A [Collector] removes the
// garbage, in a pass that its owner starts periodically. It reads the statuses from a runtime.Cache, so that a pass without
// garbage makes no call to the runtime.
//
// # Taken alone
//
// A Collector is a kubelet's containerGC and what in HandlePodCleanups removes logs. It needs three calls to a runtime, the
// statuses from a runtime.Cache that a pleg.Watcher or the caller fills, and the [PodStates] that the caller knows. A status that
// is old keeps garbage longer; it never removes a container that may still run, because the runtime refuses to remove it. The
// pods need no API defaults.
//
// # Kept objects
//
// For each container in other pods, by name and of any kind:
//
//   - the current instance, dead or alive, in any sandbox: it decides which container runs next
//     and whether init containers have completed;
//   - the newest dead instance before it, which the API reports as lastState. While the current instance has not started it may still be abandoned,
//     so one more instance is kept.
//
// So a later status never needs a removed instance, whether or not earlier statuses were delivered
// (kubernetes #117005). A container that runs, or may still run, is never removed.
//
// Among the sandboxes: the latest one, those that are ready, and those that hold a container. Among the logs: those from existing
// instances, and the newest ones, as many as instances are kept. The next attempt number follows from them (kubernetes #134153).
package gc

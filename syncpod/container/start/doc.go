// Package start starts containers over CRI: image, attempt, environment, config, create, start, postStart. In a
// kubelet this is startContainer of the runtime manager. A program with its own loop imports it, so that a container
// never starts twice.
//
// A [Starter] takes these steps for a plan's containers. [Starter.StartAll] pulls the images concurrently, starts the
// containers in order and yields each result; [Starter.PostStart] runs a handler whose end was not observed. Each part that a
// start needs is an interface of [StarterConfig] with a default, except the images.
//
// The caller provides a pod with the API's defaults, its ready sandbox, and a status that is newer than the last call that
// changed the pod. It decides which containers start, for instance with package actions, and when a failed start is repeated.
// [Memory] has what must outlive a start; with a Memory that outlives the agent, no attempt is used twice and no postStart
// handler is lost.
//
// A [Runner] is the part that calls the runtime, so that a pod ends up with one container of each attempt whatever
// becomes of the answers. It can be used alone:
//
//   - [Runner.Create] creates a container from a configuration. If the answer is lost, it lists the container that has the
//     name: the requested one is adopted, and another one is stopped and removed, after which the request is repeated once. If
//     none is listed, the creation may still be in progress, or the runtime has lost the name: the caller repeats the same
//     attempt later, until the name was refused too often (containerd #9947, cri-o #7010).
//   - [Runner.Start] starts it. If the answer is lost, it inspects the container, and never repeats the request: a container
//     that is not running then may still start, and must be removed before another one replaces it (kubernetes #139670).
//
// The caller of a Runner provides [Attempts], which outlive a call. Before Start it records that the start was requested, so
// that the next agent knows that the container may have run.
//
// Neither keeps state. Their methods may be called concurrently, but not for two containers with one name.
package start

// Where each rule lives:
//
//	starter.go    Starter: its parts, its input and its results; the order of the containers
//	start.go      the steps of one start, from the image to the postStart handler
//	images.go     images of containers, and images that they mount; their events and errors
//	configure.go  the configuration: devices, mounts, the target of an ephemeral container
//	logs.go       the attempts that have logs
//	errors.go     steps, reasons, and reasons of events
//	runner.go     Runner: CreateContainer and StartContainer, and lost answers

// Package pleg has what an agent shows of its watch on the pods of a container runtime: [Health] says whether the
// runtime is available and its pods can be read, and an [Observer] is notified of each list and each inspection. The
// name is the kubelet's: pod lifecycle event generator. This one generates inspections, not events.
//
// If the runtime streams events, an agent inspects the pods that they name, and lists all pods every
// Config.EventRelist in case an event was lost. Without events it lists all pods, after 20 ms while pods change,
// every second while a pod starts or stops, and every 10 s on a quiet node. A pod whose inspection hangs or fails
// delays no other pod.
package pleg

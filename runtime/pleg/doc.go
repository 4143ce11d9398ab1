// Package pleg has the parts of an agent's watch on its container runtime that the agent exposes: [Health] reports
// whether the runtime is available and its pods can be inspected, and an [Observer] is notified of each list and each
// inspection. The name is the kubelet's: pod lifecycle event generator. This one generates inspections, not events.
//
// If the runtime streams events, an agent inspects the pods that they name, and lists all pods every
// Settings.EventRelist in case an event was lost. Without events it lists all pods, after 20 ms while pods change,
// every second while a pod starts or stops, and every 10 s on a quiet node. A pod whose inspection hangs or fails
// delays no other pod.
package pleg

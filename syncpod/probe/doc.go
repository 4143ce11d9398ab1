// Package probe runs the startup, liveness and readiness probes of containers.
//
// A [Prober] is told what pods should be and are with Observe, and keeps a probe
// for each that a running container declares. Its results are read with
// ProbeResults, and whoever runs it is told when one has changed. It decides
// nothing: what follows from a result is decided in package actions, and what is
// reported in package apistatus.
//
// # When a container is probed
//
// First initialDelaySeconds after it has started, then every periodSeconds. Of a
// container with a startup probe nothing else is probed before that has succeeded,
// and then at once. One that ran long before it was heard of, as when the agent
// was started anew, is probed first at some time within a period, so that not all
// are at once.
//
// A result changes when successThreshold successes or failureThreshold failures
// have come in a row. A startup or liveness probe that has failed rests: the
// container is going to be stopped, and the next one is a new one. When its pod
// ends, a container is probed for readiness alone (kubernetes #107473, #140882).
//
// # What counts as success
//
//   - exec: the command ends with exit code 0. A command that could not be run at
//     all says nothing and is tried again after a period, as with a kubelet.
//   - httpGet: an answer from 200 to 399. Redirects within the host are followed; one to
//     another host is the answer, and told with the beginning of its body.
//   - tcpSocket: the connection can be made.
//   - grpc: the health service answers SERVING.
//
// All must happen within timeoutSeconds. What a probe answers or prints else is not kept
// and not told, as it may hold secrets.
//
// # Concurrency
//
// A probe that waits for its time has a timer and no goroutine. All methods may be
// called concurrently, and wait only for a lock that is held for microseconds.
package probe

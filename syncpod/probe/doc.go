// Package probe runs the startup, liveness and readiness container probes. A
// program with its own loop imports it for probes; a Checker alone makes single
// checks.
//
// A [Manager] receives the desired and actual pod state through Observe, and runs each probe that a running container
// declares. Read its results with ProbeResults; a callback reports changes. It makes no decisions: package actions decides
// what follows from a result, and package syncpod/status computes the reported conditions. The Manager passes an [Observer]
// each [Check].
//
// A [Checker] checks once: it is a kubelet's prober, and the Manager its prober.Manager. It needs a runtime for exec only, and
// applies no threshold:
//
//	checker, err := probe.NewChecker(probe.CheckerConfig{})
//	result, err := checker.Probe(ctx, probe.Request{Probe: c.ReadinessProbe, Ports: c.Ports, PodIP: "10.0.0.7"})
//
// Both accept probes without the API's defaults.
//
// # When a container is probed
//
// First initialDelaySeconds after its start, then every periodSeconds. A startup probe blocks the
// other probes until it succeeds, and then they run immediately. The startup probe is not run if the pod's
// status already has started=true for this container ID. A container that was already
// running when the agent started is first probed at a random time within a period, to spread the
// load.
//
// A result changes after successThreshold successes or failureThreshold failures in a row. A failed
// startup or liveness probe pauses, because the container will be stopped. When its pod ends, only
// a container's readiness is probed (kubernetes #107473, #140882).
//
// # What counts as success
//
//   - exec: the command exits with code 0. If it could not be run, there is no result, and it is retried
//     after a period, as in a kubelet.
//   - httpGet: a response from 200 to 399. Redirects within the host are followed; one to another host
//     is the response, and is reported with the beginning of its body.
//   - tcpSocket: the connection succeeds.
//   - grpc: the health service responds with SERVING.
//
// A probe that cannot be carried out, for example because the container has no port of its name, has no result either.
//
// All must happen within timeoutSeconds. Other responses and output from probes are neither stored nor
// reported, because they may contain secrets.
//
// # Concurrency
//
// A waiting probe has a timer and no goroutine. All methods may be called concurrently, and block
// only for a lock that is held for microseconds.
//
// # Observers
//
// An agent has its [Observer] in agent.Config.ProbeObserver. A Check contains neither request nor response.
package probe

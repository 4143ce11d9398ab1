// Package server serves the HTTP API of a kubelet for an agent's pods: kubectl logs, exec, attach
// and port-forward use it, through an API server or directly. A program imports it so that
// kubectl and crictl can reach its pods.
//
// A [Server] is an http.Handler for a loop.Loop and a client of the runtime. It opens no port and
// starts nothing before the first request; the embedder chooses how to serve it, and with which
// certificate. On the node itself one line suffices:
//
//	err = s.ServeUnix(ctx, "/run/agent.sock")
//
// # Paths
//
//	GET  /containerLogs/{namespace}/{pod}/{container}  options of v1.PodLogOptions
//	     /exec/{namespace}/{pod}/{container}           command, input, output, error, tty
//	     /attach/{namespace}/{pod}/{container}         input, output, error, tty
//	     /portForward/{namespace}/{pod}                port, if over WebSocket
//	POST /run/{namespace}/{pod}/{container}            cmd
//	POST /checkpoint/{namespace}/{pod}/{container}     timeout; Config.Checkpoints
//	GET  /pods, /runningpods/                          v1.PodList
//	GET  /stats/summary                                only_cpu_and_memory
//	GET  /metrics/resource
//	GET  /metrics/cadvisor
//	GET  /metrics, /metrics/probes                     Config.Metrics
//	GET  /timeline                                     format, pod; Config.Timeline
//	POST /plan                                         Config.Plan
//	POST /drain                                        Config.Drain
//	GET  /explain/NAMESPACE/POD                        what happens to a pod next, and why
//	GET  /healthz, /healthz/ping, /healthz/log, /healthz/syncloop
//	GET  /configz                                      Config.Configz
//	GET  /logs/                                        Config.NodeLogs
//
// /timeline, /plan, /drain and /explain are podsync's own; all other paths are a kubelet's. All except logs and
// checkpoints also accept the UID of the pod, as a segment after its name.
//
// # Streams without an agent
//
// A [Streams] serves exec, attach and port-forward alone, for a backend of the caller's: a [StreamRuntime] that returns the URL of
// each stream, as a CRI runtime does, and a [StreamPods] that finds containers. It is a kubelet's handlers for these paths without
// authentication: its caller authenticates, and passes the user with [WithUser]. Protocols, limits and log lines are those below.
//
// A backend without a streaming server serves its streams in process, with [HandlerTransport] and a handler such as the
// streaming.Server of k8s.io/cri-streaming, which calls Go functions of the backend for exec, attach and port-forward.
//
// # Figures
//
// Package stats reads the usage of node, pods and containers on request, and the result is shared
// for a second. Unreadable figures are left out and logged. /stats/summary has the JSON of the
// kubelet's stats API, /metrics/resource the metrics for metrics-server. All other metrics are
// collected by the embedder, from observers.
//
// # Streams
//
// For exec, attach and port-forward the server requests a URL from the runtime, and proxies the connection unchanged, in both
// directions: SPDY 3.1, or WebSocket with the protocols that the runtime supports. WebSocket protocols of kubectl that runtimes
// do not support are translated to SPDY, as in a kubelet since v1.36 (KEP-4006): v5.channel.k8s.io, which can signal the input's
// end, and SPDY tunnelled in messages, for ports. An API server translates itself and requests SPDY, unless the node's status
// declares the feature ExtendWebSocketsToKubelet. The caller's credentials are not passed on. A stream ends with the request's
// context, and after Config.StreamIdleTimeout without data. At most 512 streams are open at a time: 384 of one user, 352 to one
// namespace's pods, 320 to one pod, and of one user to one namespace five times as many as the user has left. Logs count as
// streams. Beyond a limit the response is 429 and names the limit. A redirect of the runtime causes a 502.
//
// # Authorization
//
// An [Authenticator] identifies the user, and an [Authorizer] decides whether the user is allowed,
// in the terms of the Kubernetes API: a verb on a subresource of nodes, as in a kubelet's
// fine-grained authorization (KEP-2862). Any one of these suffices:
//
//	/pods, /runningpods       nodes/pods     or nodes/proxy
//	/healthz                  nodes/healthz  or nodes/proxy
//	/configz                  nodes/configz  or nodes/proxy
//	/stats                    nodes/stats
//	/metrics                  nodes/metrics
//	/logs                     nodes/log
//	/checkpoint               nodes/checkpoint
//	all else                  nodes/proxy
//
// Requests that run something or open a connection have the verb create, whatever their method; a
// kubelet uses get for a WebSocket. Without an Authenticator and an Authorizer every request is
// rejected except /healthz, which reports only whether the agent is healthy.
//
// A request that runs something, opens a connection or has another method than GET is rejected if a browser makes it
// for a page of another site, because the browser would add its user's client certificate. Requests through a proxy,
// such as an API server, are not: the proxy knows which pages it serves.
package server

// The files:
//
//	server.go   Config, New; route.go the paths; errors.go error responses
//	auth.go     authentication and authorization; origin.go pages of other sites; unix.go, unix_linux.go, unix_other.go a local socket
//	pods.go     resolves pods and instances, and lists pods
//	logs.go     logs; query.go the options in a URL; ended.go waits for the end of a container
//	streamer.go Streams, and what it shares with a Server; inprocess.go a streaming server in the same process
//	stream.go   exec, attach, port-forward; proxy.go proxies the connection; spdy.go requests
//	            SPDY, and tunnels it in messages; translate.go translates the streams of a process
//	streams.go  limits and idle timeout of streams, and their log lines
//	lines.go    limits the log lines of requests
//	answers.go  limits the responses that callers have not read yet
//	cadvisor.go figures of cgroups in the format of cAdvisor
//	stats.go    usage; metrics.go the same for Prometheus, and the embedder's metrics
//	explain.go  what happens to a pod next
//	run.go      one command, and checkpoints
//	health.go   health; node.go configuration and logs of the node

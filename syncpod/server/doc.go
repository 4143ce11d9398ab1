// Package server serves the HTTP API of a kubelet for the pods of an agent: what
// kubectl logs, exec, attach and port-forward ask of a node, through an API server or
// without one.
//
// A [Server] is an http.Handler, made of a loop.Loop and a client of the runtime. It
// opens no port and starts nothing before a request comes; who serves it, and with
// which certificate, is for the embedder to say. On the node itself one line does:
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
//	GET  /metrics, /metrics/probes                     Config.Metrics
//	GET  /timeline                                     format, pod; Config.Timeline
//	GET  /explain/NAMESPACE/POD                        what happens to a pod next, and why
//	GET  /healthz, /healthz/ping, /healthz/log, /healthz/syncloop
//	GET  /configz                                      Config.Configz
//	GET  /logs/                                        Config.NodeLogs
//
// /timeline and /explain are podsync's own; all else is a kubelet's. All but logs and checkpoints also take the UID of the pod, as a segment after its
// name.
//
// # Figures
//
// What node, pods and containers use is read when it is asked for, by package stats, and
// kept for a second for others who ask. What cannot be read is left out, and noted; all
// else is told. /stats/summary has the JSON of the kubelet's stats API, /metrics/resource
// what metrics-server reads. All other metrics are counted by the embedder, to whom
// observers tell them.
//
// # Streams
//
// For exec, attach and port-forward the runtime is asked for a URL, and what it serves
// there is handed on as it is, both ways: SPDY 3.1, or WebSocket with the protocols
// that the runtime speaks. What kubectl speaks over WebSocket, and runtimes do not, is
// carried to their SPDY, as a kubelet since v1.36 does (KEP-4006): v5.channel.k8s.io, in
// which the end of the input can be told, and SPDY within messages, for ports. An API
// server does so itself, and asks for SPDY, unless the status of the node declares the
// feature ExtendWebSocketsToKubelet. Credentials of the caller are not handed on. A stream
// ends with the request's context, and when it is idle for Config.StreamIdleTimeout. At most 512
// streams are open at a time, 384 of one user, 352 to the pods of one namespace, 320 to one pod, and
// of one user to one namespace five times as many as the user has left. Logs count as streams. One
// more is answered 429, with the limit that is reached. A redirect of the runtime is answered 502.
//
// # Who may
//
// An [Authenticator] says who asks, and an [Authorizer] whether they may, in the terms
// of the Kubernetes API: a verb on the resource nodes and one of its subresources, as
// with a kubelet's fine-grained authorization (KEP-2862). Any one of these suffices:
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
// What runs or connects to something takes the verb create, however it is asked for; a
// kubelet takes get for a WebSocket. Without an Authenticator and an Authorizer
// everything is refused but /healthz, which says no more than whether the agent is
// well.
//
//	server.go   Config, New; route.go which path is whose; errors.go what is answered else
//	auth.go     who may; unix.go, unix_linux.go, unix_other.go a socket of the node
//	pods.go     which pod and instance is meant, and lists of pods
//	logs.go     logs; query.go the options in a URL; ended.go when a container has
//	stream.go   exec, attach, port-forward; proxy.go hands the connection on; spdy.go asks
//	            for SPDY, and carries it within messages; translate.go carries a process
//	streams.go  how many streams are open, how long an idle one lasts, and their lines in the log
//	lines.go    which lines requests have in the log, and how many
//	answers.go  how much is held of answers that callers have not read yet
//	stats.go    what is used; metrics.go the same for Prometheus, and what others serve
//	explain.go  what happens to a pod next
//	run.go      one command, and checkpoints
//	health.go   health; node.go configuration and logs of the node
package server

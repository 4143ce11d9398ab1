// Package prometheus counts what an agent does, under the names of a kubelet's metrics,
// so that the dashboards and alerts made for kubelets read agents, too. It is a module of
// its own: who does not use it does not have client_golang.
//
//	metrics, err := prometheus.New(prometheus.Config{NodeName: "edge-7"})
//	client, err := cri.Dial(ctx, cri.Config{Endpoint: endpoint, Options: metrics.DialOptions()})
//	config := loop.Config{Client: client, ...}
//	metrics.Observe(&config)
//	agent, err := loop.New(config)
//	handler, err := metrics.Handler(agent) // for server.Config.Metrics
//
// [Metrics.Handler] has the metrics of Go and of the process as well. With a registry of
// your own use [Metrics.Collector].
//
//	kubelet_node_name                           gauge, 1       node
//	kubelet_running_pods                        gauge
//	kubelet_running_containers                  gauge          container_state
//	kubelet_pod_start_duration_seconds          histogram
//	kubelet_pod_worker_duration_seconds         histogram      operation_type
//	kubelet_pleg_relist_duration_seconds        histogram
//	kubelet_pleg_relist_interval_seconds        histogram
//	kubelet_pleg_last_seen_seconds              gauge
//	kubelet_runtime_operations_total            counter        operation_type
//	kubelet_runtime_operations_errors_total     counter        operation_type
//	kubelet_runtime_operations_duration_seconds histogram      operation_type
//	kubelet_cgroup_manager_duration_seconds     histogram      operation_type
//	kubelet_evictions                           counter        eviction_signal
//	storage_operation_duration_seconds          histogram      volume_plugin, operation_name, status, migrated
//	volume_manager_total_volumes                gauge          plugin_name, state
//
// No label has anything of a pod in it, so that there are as many series however many
// pods there were. Those of probes are apart, at /metrics/probes, and have labels of their
// pods; they go when the pod does:
//
//	prober_probe_total                          counter        probe_type, result, container, pod, namespace, pod_uid
//	prober_probe_duration_seconds               histogram      probe_type, container, pod, namespace
//
// # What differs from a kubelet's
//
//   - An agent that hears of changes by events lists rarely, and so the interval between
//     lists may be minutes.
//
//   - A check that tells nothing, as of a command that the runtime could not run, has the
//     result unknown; a kubelet does not count it.
//
//   - The first work on the cgroup of a pod counts as create, also if an earlier agent has
//     made it. An agent that leaves cgroups to the runtime has no such metric.
//
//   - kubelet_evictions counts what a Loop with an EvictionPolicy evicts, and what
//     [Metrics.CountEviction] is told.
//
//   - Of storage operations volume_mount is told, of the volumes that a Syncer makes of
//     its Root; the others are a CSI driver's. status is success or fail-unknown.
//
//   - Of volumes the desired state is told, and not the actual one: which volumes an
//     earlier agent has made is not known.
//
// The files:
//
//	metrics.go    Metrics, and how they come to a Loop
//	observers.go  what is told by observers; operations.go by calls of the runtime,
//	              cgroups.go by cgroups, probes.go by probes
//	collector.go  what is counted when it is asked for
package prometheus

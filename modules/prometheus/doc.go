// Package prometheus exports an agent's metrics. They have the names of a kubelet's metrics, so
// that existing dashboards and alerts work. It is a separate module, so that other agents do not
// depend on client_golang.
//
//	metrics, err := prometheus.New(prometheus.Config{NodeName: "edge-7"})
//	client, err := cri.Dial(ctx, cri.Config{Endpoint: endpoint, Options: metrics.DialOptions()})
//	config := agent.Config{Client: client, ...}
//	metrics.Observe(&config)
//	agent, err := agent.New(config)
//	handler, err := metrics.Handler(agent) // for server.Config.Metrics
//
// [Metrics.Handler] also exports the metrics of Go and of the process. Use [Metrics.Collector] with
// a registry of your own.
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
//	kubelet_preemptions                         counter        preemption_signal
//	kubelet_started_pods_total                  counter
//	kubelet_started_pods_errors_total           counter
//	kubelet_started_containers_total            counter        container_type
//	kubelet_started_containers_errors_total     counter        container_type, code
//	kubelet_started_user_namespaced_pods_total  counter
//	kubelet_started_user_namespaced_pods_errors_total  counter
//	kubelet_terminated_containers_total         counter        container_type, exit_code, reason
//	storage_operation_duration_seconds          histogram      volume_plugin, operation_name, status, migrated
//	volume_manager_total_volumes                gauge          plugin_name, state
//
// [Volumes] has the claim usage, for Handler or a registry:
//
//	kubelet_volume_stats_capacity_bytes, _available_bytes, _used_bytes, _inodes, _inodes_free, _inodes_used,
//	_health_status_abnormal                     gauge          namespace, persistentvolumeclaim
//
// No other label identifies a pod or a claim, so the number of series does not grow with the number of pods.
// Probe metrics are separate, at /metrics/probes, and have their pods' labels; they are removed with the pod:
//
//	prober_probe_total                          counter        probe_type, result, container, pod, namespace, pod_uid
//	prober_probe_duration_seconds               histogram      probe_type, container, pod, namespace
//
// # Differences from a kubelet
//
//   - An agent that receives events from the runtime rarely lists pods, so the interval between two
//     relists may be minutes.
//
//   - A probe without a clear result, for example because the runtime could not run the command, counts
//     as unknown; a kubelet does not count it.
//
//   - The first operation on a pod's cgroup counts as create, even if an earlier agent created the
//     cgroup. An agent that leaves cgroups to the runtime does not have this metric.
//
//   - kubelet_evictions counts the evictions of an agent, and the calls of
//     [Metrics.CountEviction]. kubelet_preemptions counts the calls of [Metrics.CountPreemption].
//
//   - kubelet_terminated_containers_total counts each container once, also one that ended and was restarted between two
//     statuses. A kubelet misses it.
//
//   - Of the storage operations only volume_mount is exported, for volumes that a Syncer creates below
//     its Root; the others belong to CSI drivers. status is success or fail-unknown.
//
//   - Only the desired state of volumes is exported, not the actual one: the volumes that an earlier
//     agent has set up are not known.
package prometheus

// The files:
//
//	metrics.go    Metrics, and how to attach them to an agent
//	observers.go  metrics from observers; operations.go from calls to the runtime,
//	              cgroups.go from cgroups, probes.go from probes, containers.go from starts and statuses
//	collector.go  gauges that are computed on demand; volumes.go the usage of claims

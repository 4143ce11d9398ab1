// Package prometheus counts what an agent does, under the names of a kubelet's metrics,
// so that the dashboards and alerts made for kubelets read agents, too. It is a module of
// its own: who does not use it does not have client_golang.
//
//	metrics, err := prometheus.New(prometheus.Config{NodeName: "edge-7"})
//	client, err := cri.Dial(ctx, cri.Config{Endpoint: endpoint, Options: metrics.DialOptions()})
//	config := loop.Config{Client: client, ...}
//	err = metrics.Observe(&config)
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
//	volume_manager_total_volumes                gauge          plugin_name, state
//
// No label has anything of a pod in it, so that there are as many series however many
// pods there were. An agent that hears of changes by events lists rarely, and so the
// interval between lists may be minutes.
package prometheus

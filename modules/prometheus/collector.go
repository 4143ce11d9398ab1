package prometheus

import (
	client "github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/volume"
)

// A collector exports the counters, and computes the gauges when it is scraped.
type collector struct {
	*Metrics
	agent Agent
}

func (c *collector) counted() []client.Collector {
	m := c.Metrics
	return append(m.starts.all(), m.podStart, m.podWorker, m.relist, m.interval, m.lastSeen, m.operations, m.errors, m.durations, m.evictions, m.preempted, m.cgroups, m.storage)
}

// Describe sends the descriptions of all metrics.
func (c *collector) Describe(descs chan<- *client.Desc) {
	for _, counted := range c.counted() {
		counted.Describe(descs)
	}
	for _, d := range []*client.Desc{nodeName(), runningPods(), runningContainers(), volumes()} {
		descs <- d
	}
}

// Collect sends the current values of all metrics.
func (c *collector) Collect(metrics chan<- client.Metric) {
	for _, counted := range c.counted() {
		counted.Collect(metrics)
	}
	gauge := func(desc *client.Desc, value int, labels ...string) {
		metrics <- client.MustNewConstMetric(desc, client.GaugeValue, float64(value), labels...)
	}
	gauge(nodeName(), 1, c.nodeName)
	pods, containers := c.running()
	gauge(runningPods(), pods)
	for _, state := range []runtime.ContainerState{runtime.ContainerCreated, runtime.ContainerRunning, runtime.ContainerExited, runtime.ContainerUnknown} {
		gauge(runningContainers(), containers[state], state.String())
	}
	for plugin, n := range c.volumes() {
		gauge(volumes(), n, plugin, "desired_state_of_world")
	}
}

func nodeName() *client.Desc {
	return client.NewDesc("kubelet_node_name", "The name of the node. The value is always 1.", []string{"node"}, nil)
}

func runningPods() *client.Desc {
	return client.NewDesc("kubelet_running_pods", "Pods that have a sandbox that is ready.", nil, nil)
}

func runningContainers() *client.Desc {
	return client.NewDesc("kubelet_running_containers", "Containers by their state.", []string{"container_state"}, nil)
}

func volumes() *client.Desc {
	return client.NewDesc("volume_manager_total_volumes", "Volumes of pods.", []string{"plugin_name", "state"}, nil)
}

// running counts the pods and containers in the runtime.
func (c *collector) running() (pods int, containers map[runtime.ContainerState]int) {
	containers = map[runtime.ContainerState]int{}
	cache := c.agent.Cache()
	for _, uid := range cache.UIDs() {
		status, _ := cache.Get(uid)
		if status.Empty() {
			continue
		}
		if status.ActiveSandbox() != nil {
			pods++
		}
		for i := range status.Containers {
			containers[status.Containers[i].State]++
		}
	}
	return pods, containers
}

// volumes counts the pods' volumes on the node, by plugin.
func (c *collector) volumes() map[string]int {
	count := map[string]int{}
	for _, p := range c.agent.Pods() {
		if p.Phase.HasFinished() {
			continue
		}
		for i := range p.Pod.Spec.Volumes {
			count[plugin(&p.Pod.Spec.Volumes[i])]++
		}
	}
	return count
}

// plugin returns the kubelet's name of the volume's plugin.
func plugin(vol *v1.Volume) string {
	name := volume.KindOf(vol).Plugin()
	switch {
	case vol.CSI != nil:
		name = "csi"
	case name == "":
		return "other"
	}
	return "kubernetes.io/" + name
}

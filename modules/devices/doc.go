// Package devices is a device manager: it implements the device plugin API of Kubernetes (v1beta1)
// over Unix sockets, as a kubelet does, so that existing plugins work with an agent built on
// podsync. It is a separate module, so that other agents do not depend on the API's types.
//
//	manager, err := devices.New(devices.Config{State: "/var/lib/my-agent/devices"})
//	agent, err := agent.New(agent.Config{
//		...
//		Admission: manager,
//		Sync:      syncpod.Config{Extensions: syncpod.Extensions{Devices: manager}},
//	})
//	go manager.Run(ctx)
//
// A [Manager] is the Extensions.Devices of a syncpod.Config: containers get the devices in their
// limits, with the device nodes, mounts, environment variables, annotations and CDI devices that
// the plugin returns for them. Package syncpod/device persists the allocations until the pod is
// removed. The Manager also adds the device health to pod statuses, and a loop.Admission, which
// rejects pods for which there are too few devices.
//
// A container waits if its devices' plugin is disconnected, or until another container frees them.
// A disconnected plugin's resources are kept for 5 min, as in a kubelet, also across restarts of
// the plugin, the agent and the node.
//
// There are no topology hints: devices are chosen by their plugin's preference, not by NUMA node.
// [Manager.ServePodResources] reports the NUMA nodes.
//
//	config.go         Config, New
//	manager.go        Manager
//	register.go       the socket at which plugins register; plugin.go a registered plugin
//	allocate.go          allocation; merge.go merges the responses of plugins
//	admit.go          which pods fit; report.go capacity and health
//	known.go          the resources that the next agent must know
//	podresources.go   a kubelet's pod resources API, for monitoring
//	limit.go          the limits of callers at the sockets, and of plugins
//
// Package internal/ledger decides which devices a container gets.
package devices

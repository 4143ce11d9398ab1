// Package devices is a device manager: it speaks the device plugin API of Kubernetes (v1beta1)
// over sockets in a directory, as a kubelet does, so that plugins made for a kubelet serve an
// agent on podsync. It is a module of its own: who does not use it does not have the API's types.
//
//	manager, err := devices.New(devices.Config{State: "/var/lib/my-agent/devices"})
//	agent, err := loop.New(loop.Config{
//		...
//		Admission: manager,
//		Sync:      syncpod.Config{Extensions: syncpod.Extensions{Devices: manager}},
//	})
//	go manager.Run(ctx)
//
// A [Manager] is Extensions.Devices of a syncpod.Config: containers get the devices that their
// limits ask for, and what their plugin says that they need for them: device nodes, mounts,
// variables, annotations and CDI devices. What was given is kept on the disk by package
// syncpod/device until the pod is gone. It is a syncpod.DeviceReporter: statuses say how the
// devices are. As a loop.Admission it refuses pods for which there are too few.
//
// A container that asks for devices of a plugin which is away, or that others give back, waits.
// Plugins are waited for over restarts of them, of the agent and of the node, as long as a
// kubelet keeps their resources: 5 min.
//
// There are no topology hints: devices are chosen by preference of their plugin, and not by
// their NUMA node, which is told to who asks for it ([Manager.ServePodResources]).
//
//	config.go         Config, New
//	manager.go        Manager, and what stands in it while it runs
//	register.go       the socket at which plugins register; plugin.go one that did
//	allot.go          what a container is given; merge.go as its plugins say it
//	admit.go          which pods fit; report.go what is told of devices
//	known.go          what the next agent has to know of plugins
//	podresources.go   the API of a kubelet for who watches devices
//	limit.go          the limits of callers at the sockets
//
// Package internal/ledger decides which devices a container gets.
package devices

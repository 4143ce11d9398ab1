// Package dra gives containers the devices of their ResourceClaims (dynamic resource allocation): it calls the drivers of the
// node, as a kubelet does, so that existing drivers work with an agent built on podsync.
//
//	manager, err := dra.New(dra.Config{State: "/var/lib/my-agent/dra", Root: "/var/lib/my-agent", Claims: claims})
//	agent, err := agent.New(agent.Config{
//		...
//		Sync: syncpod.Config{Extensions: syncpod.Extensions{Devices: manager}},
//	})
//	go manager.Run(ctx)
//
// A [Manager] is the Extensions.Devices of a syncpod.Config. Before the sandbox of a pod is created, it gets the pod's claims,
// those of spec.resourceClaims, those made from templates and the claim of its extended resources, checks that they are allocated
// and reserved for the pod, and calls NodePrepareResources of their drivers, once for each claim. The CDI devices in the answers
// are passed to the runtime with each container that uses the claim. When the last pod of a claim has stopped, the
// Manager calls NodeUnprepareResources, and only then is the end of the pod reported.
//
// Claims come from an interface with one method. With an API server it reads objects. A program without one chooses the devices
// itself: it writes them to status.allocation and the pod to status.reservedFor, and passes the claims as [StaticClaims], or by an
// implementation of [Claims] if they change.
//
// A file for each claim is written before and after the calls. So the next agent knows which claims may be prepared, prepares
// none again, and restarts containers while drivers and the source of claims are unavailable. Only after a reboot all claims are
// prepared again.
//
// The health that drivers report becomes the allocatedResourcesStatus of containers (KEP-4680).
//
// Package dratest is a driver in memory, for tests.
package dra

// The files:
//
//	config.go    Config, New, Claims
//	manager.go   Manager: the devices of containers
//	claims.go    which claims a pod uses, and whether it may
//	prepare.go   the order of records and calls
//	record.go    what outlives the agent
//	driver.go    registration, calls and answers of drivers
//	health.go    the health of devices

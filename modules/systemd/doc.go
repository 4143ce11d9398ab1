// Package systemd connects a node agent to systemd and logind over D-Bus. It is a separate module, because the library
// does not depend on D-Bus.
//
// A [Systemd] creates the slices of pods for the systemd driver of package tree:
//
//	units, err := systemd.New(systemd.Config{})
//	cgroups, err := tree.New(tree.Config{Driver: cgroup.Systemd, Slices: units, ...})
//
// It also delays a shutdown of the machine until the pods have stopped (KEP-2000, KEP-2712):
//
//	err := units.DelayShutdown(ctx, systemd.Delay{
//		Period: policy.Total(),
//		Stop:   func(ctx context.Context) { loop.Shutdown(ctx, policy) },
//	})
//
// systemd 242 or newer is needed. The agent must run as root.
package systemd

// The files:
//
//	systemd.go   the connection
//	slices.go    slices, and the jobs of systemd
//	property.go  the properties of a slice (pure)
//	shutdown.go  the inhibitor lock of logind

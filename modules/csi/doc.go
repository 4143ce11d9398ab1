// Package csi mounts PersistentVolumeClaims and volumes from CSI drivers, as a kubelet does: it is the node side of CSI. It
// also mounts local PersistentVolumes, which are directories or block devices, and finds hostPath ones. It is a module of
// its own, so that programs that do not need it do not link the API of CSI.
//
//	manager, err := csi.New(csi.Config{Root: root, Objects: csi.Static(volumes, claims)})
//	agent, err := agent.New(agent.Config{
//		Root: root,
//		Sync: syncpod.Config{Extensions: syncpod.Extensions{Volumes: manager}},
//		...
//	})
//	go manager.Run(ctx)
//
// A [Manager] is the Extensions.Volumes in a syncpod.Config. A pod starts when its volumes are mounted, and its directory is
// removed when they are unmounted. Drivers that were made for a kubelet register at a socket in the directory
// plugins_registry of Config.Root, and must serve below Config.Root. All paths are as for a kubelet with that root
// directory.
//
// # Decision
//
// [Decide] is pure. It compares each volume's state on the node with the state that pods want, and returns a [Plan] with a
// typed reason for each step. The Manager executes the plan: one step for a volume at a time, in a goroutine that ends when
// no step is left. It retries a failed step with a kubelet's back-off (0.5 s to 2 min).
//
// # Safety
//
// Before each call the Manager records that its outcome is uncertain. The next agent reads the records, compares them with
// the mounts, and continues. A volume that may be mounted for a pod is never unstaged. A pod uses its volumes until the
// loop reports its end, which it does when nothing in the pod runs. No directory is removed unless it is empty and nothing
// is mounted on it.
//
// Answers from drivers and sockets are bounded, and their names never lead out of Config.Root. Errors repeat at most
// 1 KiB of a driver's message, and no secrets in the call.
//
// Package csitest is a driver in memory, for tests.
package csi

// The files:
//
//	config.go     Config, New
//	objects.go    Objects, Static: where claims, PersistentVolumes and secrets come from
//	source.go     which volume a claim leads to
//	decide.go     Decide: State, Desired, Plan
//	manager.go    Manager: SetUp, Locate, TearDown, InUse
//	actor.go      carries plans out
//	record.go     what outlives the agent; paths.go  where volumes are
//	driver.go     a driver, its capabilities and its errors; register.go  how it registers
//	backend.go    calls to a driver; attach.go  VolumeAttachments; expansion.go  recorded expansions
//	republish.go  requiresRepublish, and volumes that grow
//	stats.go      VolumeStats: volume usage
//	local.go      local and hostPath PersistentVolumes; disk.go  file systems on block devices
//	mount_*.go    mounts, and the group that owns files

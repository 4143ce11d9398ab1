// Package oom tells which processes the kernel kills because memory runs out, of which
// container or of the node, as it happens.
//
//	w := &oom.Watcher{}
//	err := w.Run(ctx, func(k oom.Kill) { fmt.Println(k) })
//
// # Where it is read
//
// In the kernel's log, /dev/kmsg, where a kubelet reads it, too. It is one file for all
// containers that come and go, of both versions of cgroups; whoever reads it sleeps until there
// is something; and it alone says which process was killed, and whether it was the memory of a
// container that ran out or that of the node. The cgroups' own notifications (memory.events,
// an eventfd on memory.oom_control) only count, have to be set up for each container before it can
// run out, and say nothing of the node. What has to be granted for it is the right to read that
// file: CAP_SYSLOG, where the kernel.dmesg_restrict is set.
//
// The log has room for the newest records alone. What was overwritten before it was read is lost:
// [Watcher.Run] goes on behind it. That a container was OOMKilled its runtime tells all the same,
// if it was its first process that was.
//
// Needed is Linux 5.0 or newer, which says all in one record. Elsewhere Run says that it is not
// supported.
package oom

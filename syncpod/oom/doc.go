// Package oom reports each process that the kernel kills because memory runs out, in a container or
// on the node. An agent imports it to report which pod was hit.
//
//	w := &Watcher{}
//	err := w.Run(ctx, func(k Kill) { fmt.Println(k) })
//
// # Source
//
// Package oom reads the kernel's log, /dev/kmsg, as the kubelet does. One file covers all
// containers, with cgroup v1 and v2; one read every 5 s is enough, so that a Watcher also runs in
// virtual time (testing/synctest); and only this log names
// the killed process and says whether a container or the node ran out of memory. The notifications
// of cgroups (memory.events, an eventfd on memory.oom_control) only count, must be set up for each
// container before it runs out of memory, and do not cover the node. Reading the log requires
// CAP_SYSLOG if the sysctl kernel.dmesg_restrict is set.
//
// The log is a ring buffer. If records were overwritten before they were read, they are lost, and
// [Watcher.Run] continues with the oldest one left. The runtime still reports OOMKilled for a
// container whose first process was killed.
//
// Linux 5.0 or newer is required, which reports a kill in a single record. On other systems Run
// returns an error that wraps errors.ErrUnsupported.
package oom

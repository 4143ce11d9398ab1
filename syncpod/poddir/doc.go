// Package poddir manages each pod's directory on the node. A program with its own loop imports it for
// the files that containers mount. It has a kubelet's layout, which tools on the node know:
//
//	<Root>/pods/<uid>/                                  0750
//	<Root>/pods/<uid>/etc-hosts                         0644, the /etc/hosts of its containers
//	<Root>/pods/<uid>/containers/<name>/etc-hosts       0644, the one that this container has mounted
//	<Root>/pods/<uid>/containers/<name>/<8 digits>      0666, the termination message of an instance
//	<Root>/pods/<uid>/volumes/<plugin>/<name>           its volumes
//	<Root>/pods/<uid>/plugins/<plugin>/<name>           further files for its volumes
//	<Root>/pods/<uid>/userns                            the range of a user namespace, of package userns
//
// A [Dirs] implements the interfaces of package syncpod: it prepares a pod (Parts.Prepare), mounts
// the files into its containers (Mounts there), updates the volumes while the pod runs (Refresh), and removes
// the directory when the pod has stopped for good (syncpod.Extensions.Clean). [Dirs.TerminationMessage] reads
// termination messages (Messages). [Dirs.Pods] lists the pods that have a directory, so that the directories
// of earlier agents' pods can be removed with [Dirs.RemovePod].
//
// # /etc/hosts
//
// All containers in a pod share one file. Before a container is created, the file is replaced if its content
// would differ. A new file takes its place, so that no process reads half of it. Running containers keep their
// file under its own name (a hard link), so that it counts as storage of the pod. A container does not get
// the file if it mounts something at /etc/hosts itself, or if its pod has no address.
//
// # Safety
//
// No name of a pod leads out of Root, and the removal of a directory follows no symbolic link that a container
// has created in a volume. The contents of a mount below a pod's directory are never deleted: while a mount
// exists, nothing is removed, and the error wraps [ErrMounted].
//
// # Concurrency
//
// All methods may be called concurrently for different pods. For one pod, [Dirs.Mounts] may be called
// concurrently for different containers, but PreparePod, RefreshPod and RemovePod only one at a time. A Dirs
// keeps no state in memory, and does not modify its arguments.
package poddir

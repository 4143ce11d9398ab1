// Package poddir keeps the directory that each pod has on the node, in a
// kubelet's layout, which tools on the node know:
//
//	<Root>/pods/<uid>/                                  0750
//	<Root>/pods/<uid>/etc-hosts                         0644, the /etc/hosts of its containers
//	<Root>/pods/<uid>/containers/<name>/etc-hosts       0644, the one that this container has mounted
//	<Root>/pods/<uid>/containers/<name>/<8 digits>      0666, the termination message of an instance
//	<Root>/pods/<uid>/volumes/<plugin>/<name>           its volumes
//	<Root>/pods/<uid>/plugins/<plugin>/<name>           what volumes need beside
//	<Root>/pods/<uid>/userns                            the range of a user namespace, of package userns
//
// A [Dirs] fits package syncpod as it is: it prepares a pod (deps.Dependencies.Prepare),
// mounts the files into its containers (Mounts there), keeps the volumes up to date
// while it runs (Refresh), and removes the directory once the pod has stopped
// for good (syncpod.Extensions.Clean). [Dirs.TerminationMessage] reads termination messages
// (Messages), [Dirs.Pods] lists the pods that have a directory, so that what an
// earlier agent left can be removed with [Dirs.RemovePod].
//
// # /etc/hosts
//
// All containers of a pod share one file. Before a container is created, the file is
// replaced if its content would differ: another file takes its place, so that no process
// reads half of it. Containers that run keep the file they have, under a name of their own
// (a hard link), so that it counts as storage of the pod. A container that mounts
// something at /etc/hosts itself does not get the file, nor does one of a pod that has no
// address.
//
// # Safety
//
// No name of a pod leads out of Root, and no symbolic link that a container has
// made in a volume is followed when a directory is removed. The contents of a mount below
// a pod's directory are never deleted: while there is a mount, nothing is
// removed, and the error wraps [ErrMounted].
//
// # Concurrency
//
// All methods may be called concurrently for different pods. For one pod,
// [Dirs.Mounts] may be called concurrently for different containers, but PreparePod,
// RefreshPod and RemovePod only one at a time. Nothing is kept in memory, and
// nothing given is written to.
package poddir

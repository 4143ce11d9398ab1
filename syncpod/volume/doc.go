// Package volume makes the volumes that a node can make by itself: emptyDir,
// hostPath, configMap, secret, downwardAPI and projected. A [Volumes] fits
// Config.Volumes of package poddir.
//
// Volumes lie where a kubelet has them, <pod>/volumes/kubernetes.io~<kind>/<name>.
// Only those that a container of the pod mounts are made. A volume of another
// kind is an error that names it, unless a [Plugin] provides it. An image (KEP-4639) is mounted by the runtime: all that
// is made here is the mount that says so, of an image that is there already.
//
// # Files
//
// The files of a configMap, secret, downwardAPI and projected volume are written
// as a kubelet does, so that a container sees all of an update or nothing: each
// version is a directory of its own, ..data is a symbolic link to the one that
// counts, and the files are links through it. Containers mount them read-only.
//
// [Volumes.SetUp] and [Volumes.Refresh] bring them up to date, and write nothing
// that is as it should be. Refresh says when it is to be called again: after a minute
// as long as there is a ConfigMap or Secret that can change. Sources are asked each
// time, so one that is far away should answer from memory. An immutable ConfigMap or
// Secret is asked for once: a pod keeps what it has of it, as long as the agent runs.
// A container that mounts a file or a directory with a subPath keeps what it started
// with; without the right to mount, such a directory is empty after a change.
//
// The token of a service account is renewed after 80 % of its time, or a day, also by
// the next agent: its age is that of its file. Its time is what was asked for, or less if
// the token, a JSON Web Token, says that less was granted. If that fails
// the old one serves to its end.
//
// # Owners
//
// With spec.securityContext.fsGroup the volumes are that group's. It may read all
// files, whatever their mode, and write to an emptyDir; new files in a directory are
// the group's, too. fsGroupChangePolicy is without effect on these kinds of volumes.
// hostPaths are left alone, and an emptyDir, once made, is its containers' own.
//
// The file of a token is not as open as others: its mode is 0600, or 0640 with an
// fsGroup, and its owner the user that all containers of the pod run as. Only if
// there is neither an fsGroup nor such a user, the mode of the volume counts
// (KEP-2451).
//
// # Mounts
//
// What holds secrets is kept in memory (tmpfs), and a subPath is pinned by a bind
// mount of what it led to when it was checked, so that a container cannot turn it
// into a way out of the volume meanwhile (CVE-2017-1002101). The mount of what containers may
// write ends with the start: containers choose its path in the table of mounts, which runc reads.
// Both need Linux and the right to mount; see Config.Unprivileged for an agent that has none.
// An agent calls [ShareRoot] at its start, so that mounts propagate between volumes and containers that ask for it.
//
// # Where each rule lives
//
//	volume.go     Config, SetUp: which volumes are made, and where
//	refresh.go    Refresh: what may have changed, and when to look again
//	mount.go      Mounts: what a container gets; subpath.go for a subPath
//	teardown.go   TearDown
//	plugin.go     volumes of a Plugin
//
//	emptydir.go, hostpath.go  these kinds of volumes
//	content.go    the files of the others; token.go those with a token, fixed.go
//	              ConfigMaps and Secrets that are immutable
//	filekey.go    FileKey: variables from a file of an emptyDir
//	write.go      files, all of an update or nothing
//	room.go       how much the files of a pod may take
//	directory.go  a volume's directory, on the disk or in memory
//	makedir.go    directories where containers may write meanwhile
//	owner.go      fsGroup, modes, and whose tokens are; owner_*.go whose a file is
//	mount_*.go    mounting; share.go  the root as a shared mount
//
// # Limits
//
// Without an fsGroup a secret whose defaultMode shuts others out can be read by root
// alone. emptyDir.sizeLimit bounds a volume in memory, not one on the disk: a pod that
// outgrows that is evicted, by package pressure.
package volume

// Package local sets up the volumes that need no driver: emptyDir, hostPath, configMap, secret,
// downwardAPI and projected. A [Volumes] fits Config.Volumes in package poddir. An agent
// imports it for every volume that needs no driver.
//
// Volumes are at the kubelet's paths, <pod>/volumes/kubernetes.io~<kind>/<name>. Only volumes that a
// container in the pod mounts are set up. Another kind is an error that names it, unless a volume.Plugin
// provides it. The runtime mounts an image (KEP-4639): this package only adds the mount for an image
// that is present.
//
// # Owners
//
// With spec.securityContext.fsGroup the volumes belong to that group. It may read all files, whatever
// their mode, and write to an emptyDir; new files in a directory also belong to the group.
// fsGroupChangePolicy has no effect on these volume kinds. hostPaths are not changed, and an emptyDir is
// not changed after its creation.
//
// A token's file is more restricted: its mode is 0600, or 0640 with an fsGroup, and its owner the user
// for all containers in the pod. The volume's mode applies only without an fsGroup and without such a
// user (KEP-2451).
//
// # Mounts
//
// Volumes with secrets are in memory (tmpfs). A subPath is pinned by a bind mount for the file or
// directory that was checked, so that a container cannot replace it by a path that leaves the volume
// (CVE-2017-1002101). If containers can write to it, the pin ends with the start, because they control
// its path in the mount table, which runc reads. Both need Linux and the privilege to mount; see
// Config.Unprivileged for an agent without it. An agent calls volume.ShareRoot at its start, so that
// mounts propagate between volumes and containers that request it.
//
// # Limits
//
// Without an fsGroup, only root can read a secret whose defaultMode excludes others.
// emptyDir.sizeLimit limits a volume in memory; a pod that exceeds it on the disk is evicted by
// package pressure.
package local

// Where each rule lives:
//
//	volume.go     Config, SetUp: which volumes are set up, and where
//	refresh.go    Refresh: which volumes may have changed, and the next call
//	mount.go      Mounts: the mounts of a container; subpath.go subPaths
//	teardown.go   TearDown
//	plugin.go     volumes of a volume.Plugin
//
//	emptydir.go, hostpath.go  these kinds of volumes
//	content.go    the files of the other kinds; token.go tokens, projection.go certificates, fixed.go
//	              immutable ConfigMaps and Secrets
//	filekey.go    FileKey: variables from a file of an emptyDir
//	write.go      atomic updates of files
//	room.go       the limit on a pod's files
//	directory.go  a volume's directory, on the disk or in memory
//	makedir.go    directories to which containers may write concurrently
//	owner.go      fsGroup, modes, and owners of tokens; owner_*.go owners of files
//	mount_*.go    mounting
//
// The files in a configMap, secret, downwardAPI and projected volume are written as in a kubelet,
// so that a container sees an update completely or not at all: each version is its own directory,
// ..data is a symbolic link to the current one, and the files are links through it. Containers
// mount them read-only.
//
// [Volumes.SetUp] and [Volumes.Refresh] update them, and write only what has changed. Refresh
// returns when to call it next: after a minute while a ConfigMap or Secret can change. Sources are
// read each time, so a remote one should answer from a cache. An immutable ConfigMap or Secret is
// read once: a pod keeps it while the agent runs. A container that mounts a file or a directory
// with a subPath keeps its version from the start; without the privilege to mount, such a directory
// is empty after a change.
//
// A service account token is renewed after 80 % has passed, or a day, also by the next agent: its
// age is its file's. Its lifetime is the requested one, or less if the token, a JSON Web Token,
// contains a shorter one. If the renewal fails, the old token is used until it expires.

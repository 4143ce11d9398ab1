// Package volume makes the volumes that a node can make by itself: emptyDir,
// hostPath, configMap, secret, downwardAPI and projected. A [Volumes] fits
// Config.Volumes of package poddir.
//
// Volumes lie where a kubelet has them, <pod>/volumes/kubernetes.io~<kind>/<name>.
// Only those that a container of the pod mounts are made. A volume of another
// kind is an error that names it.
//
// # Files
//
// The files of a configMap, secret, downwardAPI and projected volume are written
// as a kubelet does, so that a container sees all of an update or nothing: each
// version is a directory of its own, ..data is a symbolic link to the one that
// counts, and the files are links through it. They are brought up to date by each
// [Volumes.SetUp], and containers mount them read-only. One mounted with a subPath
// is not updated.
//
// # Mounts
//
// What holds secrets is kept in memory (tmpfs), and a subPath is pinned by a bind
// mount of what it led to when it was checked, so that a container cannot turn it
// into a way out of the volume meanwhile (CVE-2017-1002101). Both need Linux and
// the right to mount; see Config.Unprivileged for an agent that has none.
//
// # Limits
//
// spec.securityContext.fsGroup is not heeded: the owner of all files is the agent.
// An emptyDir is open to all users; a secret whose defaultMode shuts others out
// can be read by root alone. emptyDir.sizeLimit bounds a volume in memory, not one
// on the disk.
package volume

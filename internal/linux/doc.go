// Package linux holds the parts of CRI messages that a pod's sandbox and
// containers have in common on Linux: cgroup limits, namespaces, groups and
// SELinux labels.
//
// The functions are pure. Their results share no memory with their arguments.
package linux

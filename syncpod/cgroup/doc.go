// Package cgroup has the settings of a cgroup, and the driver and the root that determine its name. Package tree below
// it creates, updates and removes the cgroups of pods.
package cgroup

// Package cgroup has the settings of one cgroup, and what its name depends on: the driver, and the root of the cgroups
// of pods. Package tree below it creates, updates and removes the cgroups of pods.
package cgroup

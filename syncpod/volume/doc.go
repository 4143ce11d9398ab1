// Package volume has the interfaces of a program to the volumes of pods: a [Plugin] for those that need a driver, [Tokens]
// of service accounts, and [Projections] of certificates. [Stats] is the usage of a volume. [ShareRoot] lets mounts
// propagate between volumes and containers.
//
// The agent sets up the other volumes itself: emptyDir, hostPath, configMap, secret, downwardAPI and projected.
package volume

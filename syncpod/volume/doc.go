// Package volume has the interfaces of a program to the volumes of pods: a [Plugin] for those that need a driver, [Tokens]
// of service accounts, and [Projections] of certificates. [Stats] is the usage of a volume. [ShareRoot] lets mounts
// propagate between volumes and containers.
//
// The agent sets up the other volumes itself: emptyDir, hostPath, configMap, secret, downwardAPI and projected.
// [Directory] names the directory of such a volume as a kubelet does: volumes/<directory of the kind>/<name> below the
// directory of the pod. [TokenLifetime] and [TokenRenewal] compute how long a token of a service account is valid, and
// when it is renewed.
package volume

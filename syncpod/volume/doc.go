// Package volume has a program's interfaces to pod volumes: a [Plugin] for those that need a driver, [Tokens] of service
// accounts, and [Projections] of certificates. [Stats] is a volume's usage. [ShareRoot] lets mounts propagate between
// volumes and containers.
//
// The agent sets up the other volumes itself: emptyDir, hostPath, configMap, secret, downwardAPI and projected.
// [Kind.Directory] names the directory of such a volume as a kubelet does: volumes/<directory of the kind>/<name> below the
// pod's directory. [TokenLifetime] and [TokenRenewal] compute how long a token for a service account is valid, and when
// it is renewed.
package volume

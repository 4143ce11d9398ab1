// Package podresources computes what a pod requests, and the values of cgroups that follow from it, as numbers: packages
// that build CRI messages and packages that must not link them both need it.
package podresources

// Package podspec answers what follows from a pod's spec alone.
package podspec

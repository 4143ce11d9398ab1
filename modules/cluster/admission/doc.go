// Package admission decides which pods fit on a cluster node, and stops pods so that critical ones fit. A program that
// is a cluster node imports it, so that pods that do not fit are rejected as by a kubelet.
//
// [Admission] is a loop.Admission: it rejects a pod that does not fit with a kubelet's reasons, in
// a kubelet's order.
package admission

// The files:
//
//	admit.go       the checks and their order
//	fits.go        resources and ports; sysctl.go sysctls; apparmor.go AppArmor
//	preemption.go  stops pods for a critical one

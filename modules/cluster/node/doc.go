// Package node makes an agent a node of a cluster: it registers the Node object, keeps its
// status up to date, renews its lease, and says which pods fit.
//
// A [Node] writes its status when something of it has changed, and else only so often that
// the object is seen to be looked after: that the node lives is said by its lease in
// kube-node-lease. The object is watched: one that was deleted while the agent runs is
// made again at once, so that who wants a node gone stops its agent first.
//
// [Node.Admit] is a loop.Admission: a pod that does not fit is refused for the reasons that
// a kubelet has, in its order.
//
//	node.go        Config, New, Run
//	register.go    the object is made, or found; heartbeat.go its status and the lease
//	describe.go    what stands in the status; machine.go what the machine is like
//	events.go      events about the node
//	look.go        what the runtime answers, and how long an answer holds
//	admit.go       which pods fit; fits.go by their resources; sysctl.go by their sysctls; apparmor.go by AppArmor
package node

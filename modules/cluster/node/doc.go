// Package node makes an agent a cluster node: it registers the Node object, updates its status, and renews its lease.
// Package admission decides which pods fit on it. A program imports it to appear in a cluster as a node.
//
// A [Node] writes its status when it has changed, and otherwise at ReportInterval; the lease in
// kube-node-lease shows that the node is alive. The Node object is watched: if it is deleted while
// the agent runs, it is created again immediately. To remove a node, stop its agent first.
package node

// The files:
//
//	node.go        Config, New, Run
//	register.go    creates or adopts the object; heartbeat.go updates its status and the lease
//	describe.go    the contents of the status; machine.go reads the machine's properties
//	events.go      events about the node
//	runtime.go     the state of the runtime, and for how long it is valid

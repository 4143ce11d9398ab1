// Package hours judges a node of a real cluster during hostile hours: while the API server, the container
// runtime and the agent are killed and the network between them is cut. It compares what the API server
// reports with what the runtime and the containers themselves report.
//
//	rules.go   Check, a pure function: the rules that each snapshot of the node must keep
//	proxy.go   Proxy, which forwards TCP connections and drops, delays or half-opens them
//
// The test TestHostileHours of package e2e takes the snapshots and breaks the parts.
package hours

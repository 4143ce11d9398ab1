// Package hours checks a node of a real cluster while the API server, the container runtime and the agent are killed and
// the network between them is interrupted. It compares the state that the API server reports with the state that the
// runtime and the containers report.
//
// The test TestHostileHours of package e2e takes the snapshots and injects the faults.
package hours

// The files:
//
//	rules.go   Check, a pure function: the rules that each snapshot of the node must keep
//	proxy.go   Proxy, which forwards TCP connections and drops, delays or half-opens them

// Package inject applies the faults of package faults to the calls and events of an in-memory runtime.
//
//	calls.go     faults of calls; events.go those of events
//	random.go    random faults, from a seed
//	injected.go  how often a fault still applies
package inject

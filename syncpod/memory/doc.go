// Package memory holds the facts that an agent remembers about one pod: those that the container runtime
// does not report, such as back-offs, or may lose, such as exit codes. A program with its own loop
// imports it to survive a restart.
//
// A [Pod] is a value. Its rules take the time as an argument, make no call and hold no lock:
// the caller guards the Pod, and loads and saves its [Record].
package memory

// The files:
//
//	pod.go         the end of the pod, its eviction, and the restart of all its containers
//	containers.go  each container: attempts, the current instance, which the runtime may
//	               lose, and which containers run once
//	instances.go   each instance: marks, termination message, resources
//	cut.go         an aborted start does not count as a run
//	crashes.go     back-offs of containers that exit, which outlive the agent
//	failures.go    back-offs of steps that fail, which do not
//	kills.go       deadlines of stops while the pod keeps running
//	sandbox.go     the sandbox in use, and the wait for its address
//	record.go      the facts that outlive the agent; json.go writes them as JSON
//	snapshot.go    converts a Pod to and from its Record, and compares Records

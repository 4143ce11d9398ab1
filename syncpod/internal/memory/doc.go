// Package memory holds what an agent remembers of one pod: what the container runtime does
// not report, such as back-offs, or may lose, such as exit codes.
//
// A [Pod] is a value. Its rules take the time as an argument, make no call and hold no lock:
// the caller guards the Pod, and loads and saves its [Record].
//
//	pod.go         the end of the pod, its eviction, and the restart of all its containers
//	containers.go  each container: attempts, the current instance, which the runtime may
//	               lose, and which containers run once
//	instances.go   each instance: marks, termination message, resources
//	cut.go         a start that was cut short is no run
//	crashes.go     back-offs of containers that end, which outlive the agent
//	failures.go    back-offs of steps that fail, which do not
//	kills.go       deadlines of what has to stop while the pod runs on
//	sandbox.go     the sandbox in use, and the wait for its address
//	record.go      what outlives the agent; json.go writes it as JSON
//	snapshot.go    a Pod to and from its Record, and whether a Record says more than the last
package memory

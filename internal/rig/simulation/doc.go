// Package simulation runs whole agents on a runtime in memory, in virtual time, through
// random lives: pods are added, changed and removed, calls fail, hang and succeed late, the
// runtime and the agents are restarted, disks and images are unavailable. A trace of each life is
// then checked against rules that must hold in every life.
//
// A seed determines a life, call by call. This command runs
// 1000 lives:
//
//	PODSYNC_SIMULATION=1000 PODSYNC_SIMULATION_FROM=5000 go test -v -run TestLives ./internal/rig/simulation
//
// With -v the run prints the number of faults of each kind of call, and how often each rule was
// tested. PODSYNC_SIMULATION_TWICE=1 runs each life twice and counts the differences.
// The story of a life that breaks a rule is written to a file in PODSYNC_SIMULATION_DIR, which the failure
// names. -simulation.stories writes the stories of all lives.
// PODSYNC_SIMULATION_STOP=1 ends the run at the first broken rule. This command shows that the rules notice
// when a mechanism of podsync breaks:
//
//	go run ./internal/rig/simulation/mutants
//
// # Words
//
//	world     a node, and the events of one life
//	owner     one of the agents that share the runtime, with its successive processes, and
//	          the disk that outlives them
//	kind      what pods of one kind run, and their final state
//	act       an action on a node, such as adding a pod
//	trouble   a kind of failure; each life draws some
//	outage    a time in which a disk, volumes or reports fail
//	lost      a record that the last agent could not write completely, or that the next
//	          one could not read: the next agent lacks that part of the history
//	trace     the history; its instances are the processes that really ran
//	rule      a property of every trace; a verdict is its result for one life
//
// # Where each rule lives
//
//	world.go         a life from its beginning to its end
//	owner.go         owners and their agents; disk.go the disk that outlives them
//	pods.go          the behaviour of pods
//	acts.go          actions
//	troubles.go      failures: each life draws some
//	kept.go          what agents make on the node for pods: directories, cgroups, devices
//	objects.go       API objects and registries that become unavailable; pulls.go images whose pull takes long
//	trace.go         the history
//	rules*.go        the rules that judge it
//	result.go        the report of a life
//	worker_test.go   lives in processes of their own
//	mutants          changes to podsync that break it; a life or a test must notice each
package simulation

// Package simulation runs whole agents on a runtime in memory, in virtual time, through
// lives made at random: pods come, change and go, calls fail, hang and succeed late, the
// runtime and the agents are restarted, disks and images are away. A trace of each life is
// then held against rules that must hold whatever happens.
//
// A life is made from a seed, and the same seed makes the same life, call by call. To live
// some of them:
//
//	PODSYNC_SIMULATION=1000 PODSYNC_SIMULATION_FROM=5000 go test -v -run TestLives ./internal/rig/simulation
//
// With -v the run prints what befell which calls, and how often each rule was put to the
// test. PODSYNC_SIMULATION_TWICE=1 lives each life twice and counts those that differ.
// The story of a life that breaks a rule is written to a file that the failure names, in
// PODSYNC_SIMULATION_DIR; -simulation.tell writes those of all lives.
// PODSYNC_SIMULATION_STOP=1 ends at the first of them. That the rules notice when a
// mechanism of podsync breaks is shown by
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
//	trace.go         the history, for
//	rules*.go        the rules
//	result.go        the report of a life
//	worker_test.go   lives in processes of their own
//	mutants          changes to podsync that break it; a life or a test must notice each
package simulation

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
//	world     a node, and what happens on it in one life
//	owner     one of those that share the runtime, with its agents one after the other, and
//	          the disk that outlives them
//	kind      what pods of one kind run, and how they are in the end
//	act       something that is done to a node, such as to add a pod
//	trouble   a way in which things go wrong; each life draws some
//	outage    a time in which a disk, volumes or reports fail
//	lost      a record of which an agent that ended could not write all, or that the next
//	          one could not read: that one cannot know what came before
//	trace     what has happened; instances in it are what really ran
//	rule      what has to hold of every trace; a verdict is what came of it in one life
//
// # Where what is
//
//	world.go         a life from its beginning to its end
//	owner.go         owners and their agents, and what outlives them: disk.go
//	pods.go          what pods do
//	acts.go          what is done to them
//	troubles.go      what goes wrong besides: each life draws some
//	trace.go         what has happened, for
//	rules*.go        what has to hold
//	result.go        what is told of a life
//	worker_test.go   lives in processes of their own
//	mutants          changes to podsync that break it, each of which a life or a test notices
package simulation

// Package simulation runs whole agents on a runtime in memory, in virtual time, through
// lives made at random: pods come, change and go, calls fail, hang and succeed late, the
// runtime and the agents are restarted, disks and images are away. A trace of each life is
// then held against rules that must hold whatever happens.
//
// A life is made from a seed, and the same seed makes the same life, call by call. To live
// some of them:
//
//	PODSYNC_SIMULATION=1000 PODSYNC_SIMULATION_FROM=5000 go test -v -run TestLives ./internal/simulation
//
// With -v the run prints what befell which calls, and how often each rule was put to the
// test. PODSYNC_SIMULATION_TWICE=1 lives each life twice and counts those that differ.
// The story of a life that breaks a rule is written to a file that the failure names, in
// PODSYNC_SIMULATION_DIR; -simulation.tell writes those of all lives.
//
// # Where what is
//
//	world.go         a life from its beginning to its end
//	party.go         agents, and what outlives them: disk.go
//	pods.go          what pods do
//	acts.go          what is done to them
//	troubles.go      what goes wrong besides: each life draws some
//	trace.go         what has happened, for
//	rules*.go        what has to hold
//	result.go        what is told of a life
//	worker_test.go   lives in processes of their own
package simulation

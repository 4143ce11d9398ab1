// Package simulation runs the whole agent on a runtime in memory, in virtual time,
// through lives made at random: pods come, change and go, calls fail, hang and
// succeed late, the runtime and the agent are restarted. A trace of each life is
// then held against rules that must hold whatever happens.
//
// A life is made from a seed. To look at one again:
//
//	go test ./internal/simulation -run TestLives/seed=17 -simulation.trace
package simulation

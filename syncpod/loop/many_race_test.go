//go:build race

package loop_test

// manyPods is how many pods a node is tried with: the race detector makes each cost
// several times as much, the most of it in the runtime in memory.
const manyPods = 300

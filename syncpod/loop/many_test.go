//go:build !race

package loop_test

// manyPods is how many pods a node is tried with.
const manyPods = 1000

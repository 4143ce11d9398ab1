//go:build race

package loop_test

// manyPods is the number of pods in tests of a full node. It is smaller with the race detector, which makes the runtime in
// memory several times slower.
const manyPods = 300

// crashes is at how many calls an agent is crashed.
const crashes = 8

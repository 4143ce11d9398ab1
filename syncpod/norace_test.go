//go:build !race

package syncpod_test

// raceDetector is whether the tests run with it.
const raceDetector = false

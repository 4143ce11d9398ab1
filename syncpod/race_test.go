//go:build race

package syncpod_test

// raceDetector is whether the tests run with it, when all they do costs ten times
// as much.
const raceDetector = true

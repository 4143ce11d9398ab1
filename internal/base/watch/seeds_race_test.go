//go:build race

package watch

// seeds is how many random lives are tried: the race detector makes each cost several
// times as much.
const seeds = 6

//go:build !race

package watch

// seeds is the number of random lives that are tried.
const seeds = 20

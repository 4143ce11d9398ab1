//go:build !race

package watch

// seeds is how many random lives are tried.
const seeds = 20

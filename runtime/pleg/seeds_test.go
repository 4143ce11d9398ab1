//go:build !race

package pleg

// seeds is how many random lives are tried.
const seeds = 20

//go:build !race

package pleg

// seeds is the number of random lives that are tried.
const seeds = 20

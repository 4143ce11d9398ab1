//go:build race

package pleg

// seeds is the number of random lives that are tried. Each takes several times as long with the race detector.
const seeds = 6

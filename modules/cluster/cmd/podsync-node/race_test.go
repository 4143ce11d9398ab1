//go:build race

package main

// raced is set if the program contains the race detector, which needs additional memory.
const raced = true

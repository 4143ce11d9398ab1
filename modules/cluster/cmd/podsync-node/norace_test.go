//go:build !race

package main

// raced says whether the race detector is in the program, which takes memory of its own.
const raced = false

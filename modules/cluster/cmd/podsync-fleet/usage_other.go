//go:build !linux

package main

import (
	"runtime"
	"time"
)

// processCPU is not known here.
func processCPU() time.Duration { return 0 }

// resident returns the memory that Go has from the system, in bytes.
func resident() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.Sys)
}

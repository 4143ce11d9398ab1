//go:build !linux

package main

import (
	"runtime"
	"time"
)

// processCPU returns 0, because the CPU time is unknown on this system.
func processCPU() time.Duration { return 0 }

// residentBytes returns the memory that Go has obtained from the system, in bytes.
func residentBytes() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.Sys)
}

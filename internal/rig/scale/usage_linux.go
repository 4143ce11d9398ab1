package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// cpu is what this process has used, user and system.
func cpu() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// resident is the memory that this process has resident, in bytes.
func resident() (int64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0, fmt.Errorf("/proc/self/status: VmRSS: %w", err)
	}
	return kib * 1024, nil
}

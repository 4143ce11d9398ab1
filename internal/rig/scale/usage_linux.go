package main

import (
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"strings"
	"syscall"
	"time"
)

// done is the work of this process until now.
func done() (work, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return work{}, fmt.Errorf("getrusage: %w", err)
	}
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	w := work{CPU: time.Duration(u.Utime.Nano() + u.Stime.Nano()), WakeUps: u.Nvcsw, Allocations: int64(m.Mallocs)}
	var reads, writes error
	w.Reads, reads = field("io", "syscr:")
	w.Writes, writes = field("io", "syscw:")
	return w, errors.Join(reads, writes)
}

// resident is the memory that this process has resident, in bytes.
func resident() (int64, error) {
	kib, err := field("status", "VmRSS:")
	return kib * 1024, err
}

// field is a number in a file of this process.
func field(file, name string) (n int64, err error) {
	text, err := os.ReadFile("/proc/self/" + file)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), name)
	if _, err := fmt.Sscan(rest, &n); err != nil {
		return 0, fmt.Errorf("/proc/self/%s: %s %w", file, name, err)
	}
	return n, nil
}

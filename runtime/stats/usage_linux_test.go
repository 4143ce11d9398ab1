package stats_test

import (
	"syscall"
	"testing"
	"time"
)

// spent returns the CPU time of this process. Unlike the elapsed time, it does not depend on other processes.
func spent(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

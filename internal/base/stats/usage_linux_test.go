package stats_test

import (
	"syscall"
	"testing"
	"time"
)

// spent is the CPU time of this process, which other processes do not change as they do
// the time that passes.
func spent(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

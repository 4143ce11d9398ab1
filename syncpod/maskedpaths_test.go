package syncpod

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestThermalThrottleOfEachCPU(t *testing.T) {
	cpus := t.TempDir()
	if err := errors.Join(
		os.MkdirAll(filepath.Join(cpus, "cpu0", "thermal_throttle"), 0o700),
		os.MkdirAll(filepath.Join(cpus, "cpu1"), 0o700),
		os.MkdirAll(filepath.Join(cpus, "cpu12", "thermal_throttle"), 0o700),
		os.MkdirAll(filepath.Join(cpus, "cpuidle", "thermal_throttle"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(cpus, "cpu0", "thermal_throttle"), filepath.Join(cpus, "cpu12", "thermal_throttle")}
	if got := thermalThrottle(cpus); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

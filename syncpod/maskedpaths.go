package syncpod

import "path/filepath"

// cpusDir has a directory for each CPU of this machine.
const cpusDir = "/sys/devices/system/cpu"

// thermalThrottle returns the directories that count how often each CPU was throttled, in which
// a container could read what others compute. Not each CPU has one.
func thermalThrottle(cpus string) []string {
	paths, _ := filepath.Glob(filepath.Join(cpus, "cpu[0-9]*", "thermal_throttle")) // a pattern without a fault
	return paths
}

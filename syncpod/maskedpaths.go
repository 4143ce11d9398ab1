package syncpod

import "path/filepath"

// cpusDir has a directory for each CPU of this machine.
const cpusDir = "/sys/devices/system/cpu"

// thermalThrottle returns the directories with the throttling counters of each CPU. A container could use them to
// infer the load of other processes. Some CPUs have none.
func thermalThrottle(cpus string) []string {
	paths, _ := filepath.Glob(filepath.Join(cpus, "cpu[0-9]*", "thermal_throttle")) // the pattern is valid
	return paths
}

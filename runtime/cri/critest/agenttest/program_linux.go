package agenttest

import (
	"os"
	"strings"
	"syscall"
)

// unmountBelow undoes the mounts that an agent has left below a directory, the last one first. A
// kubelet mounts its root, and volumes in memory. Afterwards the directory can be removed without
// removing a mount's contents.
func unmountBelow(dir string) {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return
	}
	lines := strings.Split(string(text), "\n")
	for n := len(lines) - 1; n >= 0; n-- {
		fields := strings.Fields(lines[n])
		if len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			_ = syscall.Unmount(fields[1], syscall.MNT_DETACH) // removing the directory reports a failure
		}
	}
}

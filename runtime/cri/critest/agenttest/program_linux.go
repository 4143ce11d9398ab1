package agenttest

import (
	"os"
	"strings"
	"syscall"
)

// unmountBelow undoes the mounts that an agent has made below a directory and left there,
// the last one first: a kubelet mounts its root, and volumes in memory. Without them the
// directory can be removed, and it is not what is mounted that is.
func unmountBelow(dir string) {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return
	}
	lines := strings.Split(string(text), "\n")
	for n := len(lines) - 1; n >= 0; n-- {
		fields := strings.Fields(lines[n])
		if len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			_ = syscall.Unmount(fields[1], syscall.MNT_DETACH) // what stays is told when the directory is removed
		}
	}
}

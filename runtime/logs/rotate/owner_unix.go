//go:build unix

package rotate

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkOwner returns an error unless the directory belongs to the agent's user or to root: any
// other owner could have placed arbitrary files in it.
func checkOwner(dir fs.FileInfo) error {
	stat, ok := dir.Sys().(*syscall.Stat_t)
	if ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, and logs to the agent's or to root", stat.Uid)
	}
	return nil
}

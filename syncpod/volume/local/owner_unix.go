//go:build !windows

package local

import (
	"io/fs"
	"os"
	"syscall"
)

// isOwned reports whether a file belongs to a user and a group.
func isOwned(info fs.FileInfo, user, group int) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (user == keep || int(stat.Uid) == user) && (group == keep || int(stat.Gid) == group)
}

// chmodDir sets the mode on an open directory.
func chmodDir(dir *os.File, mode fs.FileMode) error { return dir.Chmod(mode) }

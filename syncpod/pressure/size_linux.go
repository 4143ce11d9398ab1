package pressure

import (
	"io/fs"
	"syscall"
)

// size is the room that a file takes, where it is, and how many names it has.
func size(info fs.FileInfo) (bytes, device, inode, names uint64) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return uint64(max(info.Size(), 0)), 0, 0, 1
	}
	return uint64(max(s.Blocks, 0)) * 512, uint64(s.Dev), s.Ino, uint64(s.Nlink)
}

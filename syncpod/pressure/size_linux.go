package pressure

import (
	"io/fs"
	"syscall"
)

// size is the room that a file takes.
func size(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(max(s.Blocks, 0)) * 512
	}
	return uint64(max(info.Size(), 0))
}

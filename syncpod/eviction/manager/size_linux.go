package manager

import (
	"io/fs"
	"syscall"

	"github.com/podsync/podsync/internal/filetree"
)

// entryOf returns a file as a walk finds it.
func entryOf(info fs.FileInfo) filetree.Entry {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return filetree.Entry{Name: info.Name(), Bytes: uint64(max(info.Size(), 0)), Links: 1}
	}
	return filetree.Entry{
		Name: info.Name(), Bytes: uint64(max(s.Blocks, 0)) * 512,
		Device: uint64(s.Dev), Inode: s.Ino, Links: uint64(s.Nlink),
	}
}

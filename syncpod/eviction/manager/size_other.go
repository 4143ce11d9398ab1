//go:build !linux

package manager

import (
	"io/fs"

	"github.com/podsync/podsync/internal/filetree"
)

// entryOf uses a file's length as its disk usage.
func entryOf(info fs.FileInfo) filetree.Entry {
	return filetree.Entry{Name: info.Name(), Bytes: uint64(max(info.Size(), 0)), Links: 1}
}

//go:build !linux

package pressure

import (
	"io/fs"

	"github.com/podsync/podsync/internal/base/filetree"
)

// entryOf returns a file with its length for the room that it takes.
func entryOf(info fs.FileInfo) filetree.Entry {
	return filetree.Entry{Name: info.Name(), Bytes: uint64(max(info.Size(), 0)), Links: 1}
}

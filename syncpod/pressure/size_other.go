//go:build !linux

package pressure

import "io/fs"

// size is the length of a file.
func size(info fs.FileInfo) uint64 { return uint64(max(info.Size(), 0)) }

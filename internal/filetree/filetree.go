// Package filetree walks and empties directories in which hostile processes concurrently create,
// move and remove files.
//
// No symbolic link is followed, no other mount is entered, and names may have any bytes. However deep or wide a
// tree is, few descriptors are open at a time, and the time grows linearly. The memory grows neither with the number
// of names in a directory nor with the length of a path.
package filetree

import "errors"

// WalkUnchanged returns ErrChanged if it has visited everything that it found, but the names in a
// directory changed during the walk: it may have missed a file that moved from an unread directory
// to one already read. Only Linux reports such changes.
var ErrChanged = errors.New("directories changed while they were walked")

// An Entry is one file or directory of a tree, as the walk found it.
type Entry struct {
	// Name is the path's last element, which may not be UTF-8; "." for the root.
	Name string
	// Depth is the number of directories above it in the tree: 0 for the root.
	Depth int
	IsDir bool
	// Bytes is the space that it occupies on the disk, not its length.
	Bytes uint64
	// Device and Inode identify a file with several names. Links is the number of names.
	// A tree may have several devices: each subvolume of a file system has one. Links is 1
	// if the operating system reports neither.
	Device, Inode, Links uint64
}

// maxDepth bounds how deep Walk follows a tree, at a few bytes a level. No path that a
// program can use at once has more than 2,048 levels.
const maxDepth = 1 << 16

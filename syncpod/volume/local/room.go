package local

import "fmt"

const (
	// maxBytes bounds the files in all a pod's volumes that the agent writes. An API object
	// has about 1 MiB, but items and sources may name one key arbitrarily often, and files
	// in memory count for the agent.
	maxBytes = 32 << 20
	// maxFiles limits the files: each takes at least a memory page.
	maxFiles = 8192
	// maxDirs limits the directories for them: a path may have 127.
	maxDirs = 8192
)

// A room is the remaining room for the files in a pod's volumes in one pass over them.
type room struct {
	bytes, files, dirs int
}

func newRoom() *room { return &room{maxBytes, maxFiles, maxDirs} }

// takeDirs subtracts directories, or returns an error if there is not enough room.
func (r *room) takeDirs(n int) error {
	if r.dirs -= n; r.dirs < 0 {
		return fmt.Errorf("the pod's volumes have more than %d directories", maxDirs)
	}
	return nil
}

// take subtracts a file, or returns an error if there is not enough room.
func (r *room) take(f file) error {
	if len(f.data) > r.bytes {
		return fmt.Errorf("the files of the pod's volumes have more than %d bytes", maxBytes)
	}
	if r.files == 0 {
		return fmt.Errorf("the pod's volumes have more than %d files", maxFiles)
	}
	r.bytes -= len(f.data)
	r.files--
	return nil
}

// release adds the size for a file that another file replaces.
func (r *room) release(f file) {
	r.bytes += len(f.data)
	r.files++
}

package hostfs

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// openPath is O_PATH of open(2), which resolves a file without opening it: opening a device may have side effects, and
// opening a FIFO waits for a writer.
const openPath = 0x200000

// Open opens a regular file for reading, and returns its FileInfo. It does not follow a link ending
// name, and links before that cannot lead outside root. It resolves the file first, and opens it by
// that descriptor once it is known to be regular: nothing else is opened, even for a moment.
func Open(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	found, err := root.OpenFile(name, openPath|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, err
	}
	defer found.Close()
	info, err := found.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, notRegular(name)
	}
	file, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(found.Fd())), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			path.Path = name
		}
		return nil, nil, err
	}
	return file, info, nil
}

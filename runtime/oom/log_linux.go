package oom

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

const kernelLogPath = "/dev/kmsg"

// openLog opens the kernel's log behind its last record. It does not block, so that a Read waits
// as one of a socket does, and ends when it is closed.
func openLog() (kernelLog, error) {
	fd, err := syscall.Open(kernelLogPath, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", kernelLogPath, err)
	}
	file := os.NewFile(uintptr(fd), kernelLogPath)
	if _, err := syscall.Seek(fd, 0, io.SeekEnd); err != nil {
		file.Close()
		return nil, fmt.Errorf("seek %s: %w", kernelLogPath, err)
	}
	return file, nil
}

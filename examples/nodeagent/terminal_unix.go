//go:build linux || darwin

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// terminalSize returns a terminal's size, in characters, and whether the file is a terminal. The
// size is zero if the terminal does not know it.
func terminalSize(f *os.File) (width, height int, ok bool) {
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	return int(size.columns), int(size.rows), errno == 0
}

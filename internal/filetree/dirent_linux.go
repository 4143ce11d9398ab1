package filetree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"syscall"
)

// A dirent is an entry as the kernel lists it.
type dirent struct {
	name string
	// next is the entry's position after it.
	next int64
}

// parse takes the first entry off a list of struct linux_dirent64: inode, next, length, type, name.
func parse(list []byte) (d dirent, rest []byte, err error) {
	const nextAt, lengthAt, nameAt = 8, 16, 19
	if len(list) < nameAt {
		return d, nil, errDirent
	}
	length := int(binary.NativeEndian.Uint16(list[lengthAt:]))
	if length <= nameAt || length > len(list) {
		return d, nil, errDirent
	}
	name, _, _ := bytes.Cut(list[nameAt:length], []byte{0})
	return dirent{name: string(name), next: int64(binary.NativeEndian.Uint64(list[nextAt:]))}, list[length:], nil
}

var errDirent = errors.New("the kernel lists a directory in an unknown form")

func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

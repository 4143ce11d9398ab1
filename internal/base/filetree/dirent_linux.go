package filetree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"syscall"
)

// A dirent is an entry as the kernel lists it.
type dirent struct {
	name string
	// next is the position of the entry after it.
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

// mountOf returns the identifier of the mount that a descriptor was opened on. A bind mount has
// another one, though its device may be the same.
func mountOf(fd int) (string, error) {
	info, err := os.Open("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return "", err
	}
	defer info.Close()
	var text [512]byte
	n, err := info.Read(text[:])
	if err != nil {
		return "", err
	}
	_, after, _ := bytes.Cut(text[:n], []byte("mnt_id:"))
	id, _, _ := bytes.Cut(after, []byte("\n"))
	if id = bytes.TrimSpace(id); len(id) > 0 {
		return string(id), nil
	}
	return "", errors.New("the kernel does not report the mount of a descriptor")
}

func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

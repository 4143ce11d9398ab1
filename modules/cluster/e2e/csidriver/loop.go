//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Requests of the loop devices of Linux: include/uapi/linux/loop.h.
const (
	loopSetFD       = 0x4C00
	loopClearFD     = 0x4C01
	loopSetCapacity = 0x4C07
	loopGetFree     = 0x4C82
	loopMajor       = 7
	loopTries       = 20
)

// attachLoop makes a block device of a file. Other programs attach devices too, so a free one may be taken meanwhile.
func attachLoop(path string, readOnly bool) (device string, err error) {
	mode := os.O_RDWR
	if readOnly {
		mode = os.O_RDONLY
	}
	file, err := os.OpenFile(path, mode, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	for range loopTries {
		if device, err = freeLoop(); err != nil {
			return "", err
		}
		if err = onDevice(device, mode, loopSetFD, file.Fd()); !errors.Is(err, syscall.EBUSY) {
			return device, err
		}
	}
	return "", err
}

// freeLoop returns a loop device that is not in use.
func freeLoop() (string, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = control.Close() }()
	number, _, errno := syscall.Syscall(syscall.SYS_IOCTL, control.Fd(), loopGetFree, 0)
	if errno != 0 {
		return "", fmt.Errorf("find a free loop device: %w", errno)
	}
	device := fmt.Sprintf("/dev/loop%d", number)
	if err := syscall.Mknod(device, syscall.S_IFBLK|0o660, loopMajor<<8|int(number)); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("create %s: %w", device, err)
	}
	return device, nil
}

// detachLoop and resizeLoop do nothing if the volume has no device.
func detachLoop(device string) error {
	if device == "" {
		return nil
	}
	if err := onDevice(device, os.O_RDONLY, loopClearFD, 0); !errors.Is(err, syscall.ENXIO) { // ENXIO: it is detached
		return err
	}
	return nil
}

func resizeLoop(device string) error {
	if device == "" {
		return nil
	}
	return onDevice(device, os.O_RDONLY, loopSetCapacity, 0)
}

// onDevice makes a request of a loop device.
func onDevice(device string, mode int, request, argument uintptr) error {
	file, err := os.OpenFile(device, mode, 0)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), request, argument); errno != 0 {
		return fmt.Errorf("request %#x of %s: %w", request, device, errno)
	}
	return nil
}

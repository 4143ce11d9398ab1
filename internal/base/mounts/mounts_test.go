package mounts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const table = `22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:26 / /pods/a/volumes/x rw - tmpfs tmpfs rw
31 30 0:27 / /pods/a/volumes/x/in\040side rw - tmpfs tmpfs rw
32 22 0:28 / /pods/ab rw - tmpfs tmpfs rw
33 22 0:29 / /pods/a/volumes/x rw - tmpfs tmpfs rw
34 22 0:30 / /pods/back\134slash rw - tmpfs tmpfs rw
`

func TestBelow(t *testing.T) {
	for dir, want := range map[string][]string{
		"/pods/a":           {"/pods/a/volumes/x/in side", "/pods/a/volumes/x"},
		"/pods/a/volumes/x": {"/pods/a/volumes/x/in side", "/pods/a/volumes/x"},
		"/pods/b":           nil,
		`/pods/back\slash`:  {`/pods/back\slash`},
		"/":                 {`/pods/back\slash`, "/pods/ab", "/pods/a/volumes/x/in side", "/pods/a/volumes/x", "/"},
	} {
		got, err := below(strings.NewReader(table), dir)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("below %s: %q, %v, want %q", dir, got, err, want)
		}
	}
}

func TestBelowRefusesWhatItCannotRead(t *testing.T) {
	if points, err := below(strings.NewReader("22 1 259:1\n"), "/"); err == nil {
		t.Errorf("a line without a mount point: %q", points)
	}
}

func TestBelowOfTheNode(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	points, err := Below(filepath.Join(dir, "link"))
	if err != nil || len(points) > 0 {
		t.Errorf("%q, %v, want no mounts in a new directory", points, err)
	}
	if at, err := At(dir); at || err != nil {
		t.Errorf("a new directory is a mount point: %t, %v", at, err)
	}
	if _, err := At(filepath.Join(dir, "none")); err == nil {
		t.Error("what is not there is no error")
	}
}

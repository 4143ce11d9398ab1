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

// The fourth field is the path of what is mounted in its file system. A container that owns it
// renames it: no name and no length of it hides a line, forges a mount point or fails the table.
func TestBelowIgnoresWhatIsMounted(t *testing.T) {
	const victim = "/pods/victim/volumes/kubernetes.io~secret/s"
	for name, root := range map[string]string{
		"long":              "/" + strings.Repeat(strings.Repeat(`\040`, 255)+"/", 1100),
		"carriage return":   "/da\rta",
		"forged":            "/x\r" + victim,
		"vertical tab":      "/x\v" + victim,
		"form feed":         "/x\f" + victim,
		"next line":         "/x\u0085" + victim,
		"no-break space":    "/x\u00a0" + victim,
		"line separator":    "/x\u2028" + victim,
		"escapes":           `/x\040` + victim + `\012\134`,
		"not UTF-8":         "/x\xff\xfe" + victim,
		"deleted":           "/x//deleted",
		"a hash and a dash": "/x#-",
	} {
		const pin = "/pods/a/volume-subpaths/v/c/0"
		line := "36 35 98:0 " + root + " " + pin + " rw shared:1 - ext4 /dev/sda rw\n"
		text := table + line + line
		for dir, want := range map[string][]string{"/pods/a/volume-subpaths": {pin}, "/pods/victim": nil, "/pods/ab": {"/pods/ab"}} {
			if got, err := below(strings.NewReader(text), dir); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: below %s: %q, %v, want %q", name, dir, got, err, want)
			}
		}
	}
}

// A mount point that is longer than any path is cut.
func TestBelowOfALongMountPoint(t *testing.T) {
	got, err := below(strings.NewReader("36 35 98:0 / /pods/a/"+strings.Repeat("x", 1<<20)+" rw - tmpfs tmpfs rw\n"), "/pods/a")
	if err != nil || len(got) != 1 || len(got[0]) > 16<<10 {
		t.Errorf("%d mount points, %v, want one of at most 16 KiB", len(got), err)
	}
}

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

func TestBelowFailsForUnreadableDirectories(t *testing.T) {
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
		t.Error("a missing path is no error")
	}
}

// The fourth field is the path, within its file system, of the mounted directory. A container that owns the directory can
// rename it: no name of any length hides a line, forges a mount point or makes the read fail.
func TestBelowIgnoresMounts(t *testing.T) {
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

const propagations = `22 1 259:1 / / rw,relatime - ext4 /dev/root rw
23 22 0:26 /shared:1 /shared:1 rw shared:2 master:7 - tmpfs shared:1 rw
30 22 0:26 / /a rw shared:1 - tmpfs tmpfs rw
3 22 0:26 / /a rw master:1 - tmpfs tmpfs rw
31 22 0:26 / /b rw master:2 propagate_from:2 shared:31 unbindable - tmpfs tmpfs rw
32 22 0:26 / /b rw - shared:4 shared:5 shared:6
123456789012345678901234567890 22 0:26 / /b rw shared:2 - tmpfs tmpfs rw
`

func TestShared(t *testing.T) {
	for id, want := range map[string]bool{"22": false, "23": true, "30": true, "3": false, "31": true, "32": false} {
		if got, err := shared(strings.NewReader(propagations), id); err != nil || got != want {
			t.Errorf("mount %s is shared: %t, %v, want %t", id, got, err, want)
		}
	}
	for _, id := range []string{"2", "1", "0:26", "rw", ""} {
		if got, err := shared(strings.NewReader(propagations), id); err == nil {
			t.Errorf("mount %q, which has no line, is shared: %t", id, got)
		}
	}
	if got, err := shared(strings.NewReader("22 1 259:1\n"), "22"); err == nil {
		t.Errorf("a line without a mount point: %t", got)
	}
}

// The fields before the propagation of a mount may have any length and any text.
func TestSharedIgnoresPaths(t *testing.T) {
	for _, path := range []string{"/shared:1", "/-", "/" + strings.Repeat(`\040`, 1<<20), "/x\r30", "/x\u2028y"} {
		table := "29 22 0:26 " + path + " " + path + " rw - tmpfs tmpfs rw\n30 22 0:26 " + path + " " + path + " rw shared:7 - tmpfs tmpfs rw\n"
		for id, want := range map[string]bool{"29": false, "30": true} {
			if got, err := shared(strings.NewReader(table), id); err != nil || got != want {
				t.Errorf("mount %s of %.20q is shared: %t, %v, want %t", id, path, got, err, want)
			}
		}
	}
}

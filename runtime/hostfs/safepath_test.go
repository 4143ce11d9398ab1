package hostfs_test

import (
	"path"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/hostfs"
)

func TestElement(t *testing.T) {
	for s, ok := range map[string]bool{
		"web-0": true, "a.b": true, "...": true, "..a": true,
		"": false, ".": false, "..": false, "a/b": false, "/": false, `a\b`: false, "a\x00": false,
	} {
		err := hostfs.Element("metadata.name", s)
		if (err == nil) != ok {
			t.Errorf("Element(%q) = %v, want ok %v", s, err, ok)
		}
		if err != nil && !strings.Contains(err.Error(), "metadata.name") {
			t.Errorf("Element(%q) = %v, want the field named", s, err)
		}
	}
}

func TestRelative(t *testing.T) {
	for s, ok := range map[string]bool{
		"p.json": true, "a/b/c": true, "./a": true, "a..b/c": true,
		strings.Repeat("a/", 127) + "a": true, strings.Repeat("a/", 128) + "a": false, strings.Repeat("a", 4095): true, strings.Repeat("a", 4096): false,
		"": false, "/etc/passwd": false, "..": false, "../x": false, "a/../../x": false, "a/..": false, `a\..\b`: false, "a\x00": false,
	} {
		if err := hostfs.Relative("localhostProfile", s); (err == nil) != ok {
			t.Errorf("Relative(%q) = %v, want ok %v", s, err, ok)
		}
	}
}

// Of a long name an error has the beginning.
func TestLongNamesAreCut(t *testing.T) {
	long := strings.Repeat("a", 5000)
	for _, err := range []error{
		hostfs.Element("metadata.uid", long+"/"), hostfs.Relative("path", "/"+long), hostfs.Relative("path", long+"/.."), hostfs.Relative("path", long+"\\"),
	} {
		if err == nil || len(err.Error()) > 150 || !strings.Contains(err.Error(), "a\"... ") {
			t.Errorf("%v, want an error and at most 150 and %q in it", err, "a\"... ")
		}
	}
}

func FuzzRelativeStaysBelow(f *testing.F) {
	f.Add("a/b")
	f.Add("a/../b")
	f.Fuzz(func(t *testing.T, s string) {
		if hostfs.Relative("f", s) != nil {
			return
		}
		if joined := path.Join("/root/dir", s); joined != "/root/dir" && !strings.HasPrefix(joined, "/root/dir/") {
			t.Errorf("%q was accepted and leads to %q", s, joined)
		}
	})
}

package podfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/podfile"
)

func TestFilesAreReplacedAndRemoved(t *testing.T) {
	dir := podfile.Dir(filepath.Join(t.TempDir(), "a", "b"))
	if pods, err := dir.List(); err != nil || len(pods) != 0 {
		t.Errorf("no directory has %v, %v", pods, err)
	}
	for _, text := range []string{"long text", "short"} {
		for _, sync := range []bool{false, true} {
			if err := dir.Replace("b", []byte(text), sync); err != nil {
				t.Fatal(err)
			}
			if got, err := dir.Read("b"); err != nil || string(got) != text {
				t.Errorf("read %q, %v, want %q", got, err, text)
			}
		}
	}
	if err := errors.Join(dir.Replace("a", nil, false), dir.Replace("a-1", nil, false)); err != nil {
		t.Fatal(err)
	}
	if pods, err := dir.List(); err != nil || !slices.Equal(pods, []types.UID{"a", "a-1", "b"}) {
		t.Errorf("there are %v, %v", pods, err)
	}
	if err := errors.Join(dir.Remove("b"), dir.Remove("b")); err != nil {
		t.Error(err)
	}
	if _, err := dir.Read("b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read after it was removed: %v", err)
	}
}

func TestOtherFilesAreNoPods(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".a.json.tmp", ".a.json", "README"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "d.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if pods, err := podfile.Dir(dir).List(); err != nil || len(pods) != 0 {
		t.Errorf("there are %v, %v", pods, err)
	}
}

func TestHugeFileIsNotRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.json"), []byte(strings.Repeat(" ", 4<<20+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := podfile.Dir(dir).Read("a"); err == nil || !strings.Contains(err.Error(), "pod a") {
		t.Errorf("the error is %v", err)
	}
}

func TestNothingIsWrittenOutsideTheDirectory(t *testing.T) {
	root := t.TempDir()
	dir := podfile.Dir(filepath.Join(root, "a"))
	for _, uid := range []types.UID{"", ".", "..", "../x", "/x", `..\x`, "a\x00", ".a"} {
		_, err := dir.Read(uid)
		if err == nil || dir.Replace(uid, nil, true) == nil || dir.Remove(uid) == nil {
			t.Errorf("UID %q is taken", uid)
		}
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 0 {
		t.Errorf("there are %v, %v", entries, err)
	}
	if podfile.Dir("").Replace("a", nil, true) == nil {
		t.Error("no directory is taken")
	}
}

// A write that fails leaves only the old file.
func TestFailedReplaceLeavesNothing(t *testing.T) {
	root := t.TempDir()
	for _, in := range []string{"a.json", "a.json.damaged/full"} { // directories in place of the file, and of what is set aside
		if err := os.MkdirAll(filepath.Join(root, in), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := podfile.Dir(root).Replace("a", []byte("text"), false); err == nil {
		t.Error("a directory was replaced")
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 2 {
		t.Errorf("there are %v, %v", entries, err)
	}
}

// A file too large to be read again is not written, and the old one stays.
func TestHugeFileIsNotWritten(t *testing.T) {
	dir := podfile.Dir(t.TempDir())
	largest := []byte(strings.Repeat(" ", 4<<20))
	if err := dir.Replace("a", largest, false); err != nil {
		t.Fatal(err)
	}
	if err := dir.Replace("a", append(largest, ' '), false); err == nil || !strings.Contains(err.Error(), "file of pod a: it would have 4194305 bytes, and 4194304 is the most") {
		t.Errorf("the error is %v", err)
	}
	if got, err := dir.Read("a"); err != nil || len(got) != len(largest) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

// A directory in the place of a file is set aside, because nothing else could be written there.
func TestDirectoryInThePlaceOfAFile(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "a.json", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := podfile.Dir(root)
	if err := dir.Replace("a", []byte("text"), false); err != nil {
		t.Fatal(err)
	}
	if text, err := dir.Read("a"); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Stat(filepath.Join(root, "a.json.damaged", "full")); err != nil || !info.IsDir() {
		t.Errorf("%v, %v", info, err)
	}
}

// A file that will never be readable is an error of its own, so that nothing waits for it.
func TestDamagedFiles(t *testing.T) {
	root := t.TempDir()
	dir := podfile.Dir(root)
	for uid, write := range map[string]func(path string) error{
		"text":      func(path string) error { return os.WriteFile(path, []byte("text"), 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"huge":      func(path string) error { return os.WriteFile(path, make([]byte, 4<<20+1), 0o600) },
	} {
		if err := write(filepath.Join(root, uid+".json")); err != nil {
			t.Fatal(err)
		}
		var into any
		if err := dir.ReadJSON(types.UID(uid), &into); !errors.Is(err, podfile.ErrDamaged) {
			t.Errorf("%s: %v", uid, err)
		}
	}
	if err := dir.ReadJSON("none", new(any)); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, podfile.ErrDamaged) {
		t.Errorf("no file: %v", err)
	}
}

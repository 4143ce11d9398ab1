package stats

import (
	"bytes"
	"io/fs"
	"testing"
	"testing/fstest"
)

// endless is a file system whose files have no end.
type endless struct{}

func (endless) Open(name string) (fs.File, error) {
	file, err := fstest.MapFS{name: {}}.Open(name)
	return endlessFile{file}, err
}

type endlessFile struct{ fs.File }

func (endlessFile) Read(b []byte) (int, error) {
	return copy(b, bytes.Repeat([]byte("1"), len(b))), nil
}

func TestFilesOfAnySize(t *testing.T) {
	f := files{FS: endless{}}
	if text, ok := f.read("proc/1/net/dev"); ok || len(f.errs) != 1 {
		t.Errorf("%d bytes, %v", len(text), f.errs)
	}
	if cap(f.buffer) > 2*maxFile {
		t.Errorf("a buffer of %d bytes is kept", cap(f.buffer))
	}
}

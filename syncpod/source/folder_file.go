package source

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/hostfs"
)

// maxManifest is the maximum file size. It limits the memory for a file that is not a manifest and was put into the
// folder by accident.
const maxManifest = 10 << 20

// errNotRegular reports that a name is not a file to read.
var errNotRegular = errors.New("not a regular file")

// A manifestFile is a file's state when it was last read.
type manifestFile struct {
	sum [sha256.Size]byte // of its text, zero if it could not be read
	manifest
	// complete means that the whole file has been read successfully at some time.
	complete bool
}

// isManifest reports whether a file is read by its name: not if the name begins with a dot, or is
// a copy left by editors, patch and packages.
func isManifest(name string) bool {
	isCopy := strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#") ||
		slices.ContainsFunc(copySuffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) })
	return !strings.HasPrefix(name, ".") && !isCopy
}

// copySuffixes are the suffixes for files that copy other files.
var copySuffixes = []string{
	"~", ".tmp", ".bak", ".old", ".orig", ".rej", ".save", ".swp",
	".dpkg-dist", ".dpkg-new", ".dpkg-old", ".rpmnew", ".rpmorig", ".rpmsave",
}

// readManifest reads a file, or the file that a symbolic link leads to. Nothing but a regular file is opened:
// opening a FIFO would wait for a writer.
func readManifest(path string) ([]byte, error) {
	file, info, err := hostfs.OpenPath(path)
	switch {
	case errors.Is(err, hostfs.ErrNotRegular):
		return nil, errNotRegular
	case errors.Is(err, fs.ErrNotExist):
		if found, gone := os.Lstat(path); gone != nil || found.Mode()&fs.ModeSymlink == 0 {
			return nil, errNotRegular // the file was removed or replaced in the meantime
		}
		return nil, errors.New("it is a symbolic link to nothing")
	case err != nil:
		return nil, err
	}
	defer file.Close()
	if info.Size() == 0 { // the kernel's special files, such as its log, have this size; reading one may block forever
		return nil, nil
	}
	text, err := io.ReadAll(io.LimitReader(file, maxManifest+1))
	if err == nil && len(text) > maxManifest {
		err = fmt.Errorf("it has more than %d bytes", maxManifest)
	}
	return text, err
}

// load reads a folder's file again. It returns old if the text is the same, and nil if the file does not
// exist.
func (f *Folder) load(path string, old *manifestFile) *manifestFile {
	text, err := readManifest(path)
	if errors.Is(err, errNotRegular) {
		return nil
	}
	if err != nil {
		return succeed(old, &manifestFile{manifest: unreadable(path, err)})
	}
	sum := sha256.Sum256(text)
	if old != nil && old.sum == sum {
		return old
	}
	return succeed(old, &manifestFile{sum: sum, manifest: f.decode(path, text)})
}

// succeed merges a file's new version with the old one: unreadable objects keep their last valid version.
func succeed(old, file *manifestFile) *manifestFile {
	if old == nil {
		old = &manifestFile{}
	}
	before := make(map[objectKey][]object, len(old.objects))
	for _, o := range old.objects {
		before[o.objectKey] = append(before[o.objectKey], o)
	}
	has := map[objectKey]bool{}
	for i := range file.objects {
		o := &file.objects[i]
		has[o.objectKey] = true
		for _, was := range before[o.objectKey] {
			o.Object = unchanged(was, *o)
		}
	}
	// A truncated file may still parse: if a file has errors, missing objects were not removed on
	// purpose.
	inDoubt := file.unread || len(file.broken) > 0
	kept := map[objectKey]bool{}
	for _, o := range old.objects {
		if inDoubt && !has[o.objectKey] {
			has[o.objectKey], kept[o.objectKey] = true, true
			file.objects = append(file.objects, o)
		}
	}
	file.complete = old.complete || !file.unread
	for key := range file.broken {
		file.complete = file.complete && has[key]
	}
	file.keep(kept)
	return file
}

// keep marks the errors for objects whose earlier version is still in use.
func (f *manifestFile) keep(kept map[objectKey]bool) {
	for _, err := range f.errors {
		if e, ok := errors.AsType[*ManifestError](err); ok {
			e.Kept = kept[e.key] || e.key == objectKey{} && len(kept) > 0
		}
	}
}

// unchanged returns the old object if the new one is equal.
func unchanged(old, o object) metav1.Object {
	pod, isPod := o.Object.(*v1.Pod)
	was, wasPod := old.Object.(*v1.Pod)
	if isPod && wasPod && was.UID == pod.UID {
		pod.Annotations[runtime.AnnotationConfigSeen] = was.Annotations[runtime.AnnotationConfigSeen]
	}
	if reflect.DeepEqual(o.Object, old.Object) {
		return old.Object
	}
	return o.Object
}

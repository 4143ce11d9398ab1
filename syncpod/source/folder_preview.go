package source

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
)

// published are the files in a Folder, and the objects in use. Neither changes any more.
type published struct {
	files   map[string]*manifestFile
	counted map[objectKey]counted
}

// Preview returns the snapshot that Run would deliver if the folder had these files, by name: these only if whole is set,
// otherwise these beside its other files. It delivers and changes nothing. As in the folder, some names are ignored.
func (f *Folder) Preview(files map[string][]byte, whole bool) Snapshot {
	last := f.published.Load()
	if last == nil {
		last = &published{}
	}
	trial := &Folder{path: f.path, node: f.node, name: f.name, files: map[string]*manifestFile{}, counted: last.counted}
	trial.configs.Store(f.configs.Load())
	if !whole {
		maps.Copy(trial.files, last.files)
	}
	for name, text := range files {
		if !isManifest(name) {
			continue
		}
		path, old := filepath.Join(f.path, name), last.files[name]
		switch sum := sha256.Sum256(text); {
		case len(text) > maxManifest:
			trial.files[name] = succeed(old, &manifestFile{manifest: unreadable(path, fmt.Errorf("it has more than %d bytes", maxManifest))})
		case old != nil && old.sum == sum:
			trial.files[name] = old
		default:
			trial.files[name] = succeed(old, &manifestFile{sum: sum, manifest: f.decode(path, text)})
		}
	}
	return trial.snapshot(nil)
}

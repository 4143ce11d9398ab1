package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/container/env"
)

// FolderConfig configures a Folder.
type FolderConfig struct {
	// Path is the folder. Required. It need not exist.
	Path string
	// NodeName is the node's name in lower case, which enters pod names. Required.
	NodeName string
	// Name is the source's name. Default runtime.ConfigSourceFile.
	Name string
	// Rescan is the interval at which all files are read again, because changes behind symbolic
	// links and on network file systems are not reported.
	// Default 20 s.
	Rescan time.Duration
}

// Folder is a [Source] for the pods whose manifests are in a folder, as YAML or JSON. A file may contain several documents, and
// lists, with pods, ConfigMaps and Secrets. Pods get static pods' identity and the API's defaults, and are validated; see package
// podspec. Pods may refer to the ConfigMaps and Secrets: a Folder is an env.ConfigMaps and an env.Secrets; set it as
// Objects.ConfigMaps and Objects.Secrets in syncpod.Config, and as Objects.PullSecrets for imagePullSecrets, because a Loop does
// not. When one changes, running pods' volumes are updated immediately.
//
// Every regular file is read, except those whose names begin with a dot, and copies left by editors
// and other tools: "#...#", and names that end in "~", ".tmp", ".bak", ".old", ".orig", ".rej",
// ".save", ".swp", ".dpkg-new" and the like. Changes are detected immediately if the system reports
// them, otherwise by the next rescan. Writers should write a file whose name begins with a dot and
// rename it; a partially written file is an error until it is complete.
//
// If an object is unreadable or invalid, that is an error and the previous version stays in use. While a file has such an error,
// its valid pods are started and changed, and none is stopped because it is missing. Nor is any stopped if the folder itself is
// missing. Among several objects with the same name, the one already in use takes precedence, whatever its file is called, and
// otherwise the one whose file's name sorts first; so a new file stops no pod from another one.
//
// Unknown fields cause warnings; a kubelet ignores them silently.
type Folder struct {
	path, node, name string
	rescan           time.Duration
	watch            func(dir string) (*watch, error)

	// files are the files' last versions, by name. Only Run uses it.
	files map[string]*manifestFile
	// counted are the last snapshot's objects, with their files. Only Run uses it.
	counted map[objectKey]counted
	// configs are the ConfigMaps and Secrets in the last snapshot, nil if the folder
	// was never read.
	configs atomic.Pointer[map[objectKey]metav1.Object]
	// published are the files and counted objects in the last snapshot, nil before the first one.
	published atomic.Pointer[published]
}

var (
	_ Source         = (*Folder)(nil)
	_ env.ConfigMaps = (*Folder)(nil)
	_ env.Secrets    = (*Folder)(nil)
)

const defaultRescan = 20 * time.Second

// NewFolder returns a Folder. It reads nothing and starts nothing.
func NewFolder(c FolderConfig) (*Folder, error) {
	if c.Path == "" {
		return nil, errors.New("source: FolderConfig.Path is empty: it must be the folder of manifests")
	}
	if c.NodeName == "" {
		return nil, errors.New("source: FolderConfig.NodeName is empty: it must be the name of the node, which ends the names of pods")
	}
	if problems := validation.IsDNS1123Subdomain(c.NodeName); len(problems) > 0 {
		return nil, fmt.Errorf("source: FolderConfig.NodeName %q: %s", c.NodeName, strings.Join(problems, ", "))
	}
	if c.Rescan < 0 {
		return nil, fmt.Errorf("source: FolderConfig.Rescan %v is negative", c.Rescan)
	}
	if c.Rescan == 0 {
		c.Rescan = defaultRescan
	}
	if c.Name == "" {
		c.Name = runtime.ConfigSourceFile
	}
	// The path belongs to the pods' identity, which must not depend on how the path is written.
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return nil, fmt.Errorf("source: FolderConfig.Path %q: %w", c.Path, err)
	}
	return &Folder{path: path, node: c.NodeName, name: c.Name, rescan: c.Rescan, watch: newWatch}, nil
}

// Name returns the source's name.
func (f *Folder) Name() string { return f.name }

// ConfigMap returns a ConfigMap from the folder.
func (f *Folder) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return config[*v1.ConfigMap](f, objectKey{kindConfigMap, namespace, name})
}

// Secret returns a Secret from the folder.
func (f *Folder) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	return config[*v1.Secret](f, objectKey{kindSecret, namespace, name})
}

func config[T any](f *Folder, key objectKey) (T, error) {
	var none T
	configs := f.configs.Load()
	if configs == nil {
		return none, fmt.Errorf("%s may be in %s, which was not read yet", key, f.path)
	}
	if c, ok := (*configs)[key].(T); ok {
		return c, nil
	}
	return none, fmt.Errorf("%s is not in %s: %w", key, f.path, env.ErrNotFound)
}

// scan reads the folder: new files, and files that may have changed.
func (f *Folder) scan(mayHaveChanged func(os.DirEntry) bool) error {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return &ManifestError{File: f.path, Err: err}
	}
	files := make(map[string]*manifestFile, len(entries))
	for _, e := range entries {
		if !isManifest(e.Name()) || e.IsDir() {
			continue
		}
		file := f.files[e.Name()]
		if file == nil || mayHaveChanged(e) {
			file = f.load(filepath.Join(f.path, e.Name()), file)
		}
		if file != nil {
			files[e.Name()] = file
		}
	}
	f.files = files
	return nil
}

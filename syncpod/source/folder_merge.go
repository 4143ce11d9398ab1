package source

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// counted is an object of the snapshot, with its file.
type counted struct {
	file   string
	object metav1.Object
}

// snapshot merges the contents of the files. err is why the folder was not read, nil if it was.
func (f *Folder) snapshot(err error) Snapshot {
	s := Snapshot{Inferred: true}
	if err != nil {
		s.Errors = append(s.Errors, f.notRead(err))
	}
	if f.files == nil {
		s.Incomplete = err != nil
		return s
	}
	m := merge{Snapshot: s, counted: map[objectKey]counted{}, configs: map[objectKey]metav1.Object{}}
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		m.read(filepath.Join(f.path, name), f.files[name])
	}
	m.decide(f.counted)
	m.put()
	f.counted = m.counted
	f.published.Store(&published{maps.Clone(f.files), m.counted})
	if last := f.configs.Swap(&m.configs); last != nil {
		m.ConfigsChanged = !maps.Equal(*last, m.configs)
	}
	return m.Snapshot
}

// notRead returns why the folder was not read.
func (f *Folder) notRead(err error) error {
	if e, ok := errors.AsType[*ManifestError](err); ok {
		e.Kept = len(f.files) > 0
	}
	return err
}

// merge combines several files' objects.
type merge struct {
	Snapshot
	entries []*entry
	counted map[objectKey]counted
	configs map[objectKey]metav1.Object
}

// entry is an object in a file.
type entry struct {
	object
	file string
	// rank is lower for an object that was in use before.
	rank int
	// refused is why the object is not used, nil if it is.
	refused error
}

// Objects in use before come first: the same object, then its other version.
const (
	rankSame = iota
	rankFile
	rankNew
)

func (m *merge) read(path string, file *manifestFile) {
	m.Errors = append(m.Errors, file.errors...)
	m.Warnings = append(m.Warnings, file.warnings...)
	m.Incomplete = m.Incomplete || !file.complete
	for _, o := range file.objects {
		m.entries = append(m.entries, &entry{object: o, file: path})
	}
}

// decide decides which entry with one name or one UID is used.
func (m *merge) decide(before map[objectKey]counted) {
	for _, e := range m.entries {
		switch was := before[e.objectKey]; {
		case was.object == e.Object:
			e.rank = rankSame
		case was.file == e.file:
			e.rank = rankFile
		default:
			e.rank = rankNew
		}
	}
	byRank := slices.Clone(m.entries)
	slices.SortStableFunc(byRank, func(a, b *entry) int { return cmp.Compare(a.rank, b.rank) })
	names, uids := map[objectKey]*entry{}, map[types.UID]*entry{}
	for _, e := range byRank {
		pod, isPod := e.Object.(*v1.Pod)
		switch {
		case names[e.objectKey] != nil:
			e.refused = fmt.Errorf("another of that name is in %s, which counts", names[e.objectKey].place())
			continue
		case isPod && uids[pod.UID] != nil:
			e.refused = fmt.Errorf("metadata.uid is that of a pod in %s, which counts", uids[pod.UID].place())
			continue
		case isPod:
			uids[pod.UID] = e
		}
		names[e.objectKey] = e
	}
}

// place returns an entry's position in the folder.
func (e *entry) place() string { return fmt.Sprintf("%s, document %d", e.file, e.document) }

// put adds the entries that are used, in the files' order, and the reasons why others are not.
func (m *merge) put() {
	for _, e := range m.entries {
		if e.refused != nil {
			m.Errors = append(m.Errors, &ManifestError{File: e.file, Document: e.document, Object: e.String(), Err: e.refused})
			continue
		}
		m.counted[e.objectKey] = counted{e.file, e.Object}
		if pod, isPod := e.Object.(*v1.Pod); isPod {
			m.Pods = append(m.Pods, pod)
		} else {
			m.configs[e.objectKey] = e.Object
		}
	}
}

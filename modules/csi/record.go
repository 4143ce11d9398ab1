package csi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/hostfs"
)

// maxRecord is the maximum size of a record, in bytes.
const maxRecord = 1 << 20

// A record is the state of a volume that outlives the agent. It is written before each call that may change the volume.
type record struct {
	// Boot is the node's boot ID when the record was written: mounts do not survive a reboot.
	Boot   string
	Source source
	Staged Condition `json:",omitempty"`
	// Mounted means that the staging path was a mount point after the stage had succeeded.
	Mounted  bool  `json:",omitempty"`
	Expanded int64 `json:",omitempty"`
	// Pods are the pods that want the volume or may have it.
	Pods map[types.UID]*use
}

// A use is the use of a volume by a pod.
type use struct {
	Pod Pod
	// Names are the volume's names in the pod's spec.
	Names []string
	// Source is the source of the pod's PersistentVolume: several of them may have the same handle. Nil means that of the
	// record.
	Source    *source   `json:",omitempty"`
	Published Condition `json:",omitempty"`
	Mounted   bool      `json:",omitempty"`
	// Ended means that nothing of the pod runs.
	Ended bool `json:",omitempty"`
}

// write writes the record. With sync it returns after the record is on the disk.
func (r *record) write(l layout, sync bool) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := l.record(r.Source.id())
	if len(text) > maxRecord {
		return fmt.Errorf("the record of the volume has %d bytes, more than %d", len(text), maxRecord)
	}
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return err
	}
	if err := hostfs.Replace(path, text, sync); err != nil {
		return err
	}
	if sync {
		return hostfs.SyncDir(filepath.Dir(path))
	}
	return nil
}

// empty reports whether the node has no state of the volume and no pod wants it.
func (r *record) empty() bool { return r.Staged == Absent && len(r.Pods) == 0 }

// checkPath returns an error if a volume with the same name may be mounted from another path or in another mode, because
// its PersistentVolume was deleted and created again. A pod that has the volume keeps it. The caller holds the lock.
func (e *entry) checkPath(pod types.UID, s *source) error {
	r := e.record
	u := r.Pods[pod]
	old := &r.Source
	same := s.Path == old.Path && s.Block == old.Block
	if same || !r.mayBeMounted() || u != nil && u.Published != Absent {
		return nil
	}
	return fmt.Errorf("the PersistentVolume has the path %s and volumeMode Block %t, but the volume is still mounted from %s with volumeMode Block %t", s.Path, s.Block, old.Path, old.Block)
}

// sourceFor returns the volume's source for a pod, staged as the record says.
func (r *record) sourceFor(pod types.UID) *source {
	u := r.Pods[pod]
	if u == nil || u.Source == nil {
		s := r.Source
		return &s
	}
	s := *u.Source
	s.StagedAs = cmp.Or(r.Source.StagedAs, r.Source.Name)
	return &s
}

// uses reports whether a pod has the volume, or wants it, as a PersistentVolume.
func (r *record) uses(volume string) bool {
	for _, u := range r.Pods {
		if u.Source == nil || u.Source.Name == volume {
			return true
		}
	}
	return false
}

// update copies the fields that may change from newer objects of the volume. Its identity stays, and so do the path and
// the mode of a volume that may be mounted. Another PersistentVolume with the same handle changes nothing while a pod uses
// the first one. The caller holds the lock.
func (e *entry) update(s *source) {
	r := e.record
	old, mounted := r.Source, r.mayBeMounted()
	if mounted && s.Name != old.Name && r.uses(old.Name) {
		return
	}
	r.Source = *s
	r.Source.ReadOnly = s.ReadOnly || old.ReadOnly && len(r.Pods) > 1
	if mounted {
		r.Source.Path, r.Source.Block = old.Path, old.Block
		if staged := cmp.Or(old.StagedAs, old.Name); staged != s.Name {
			r.Source.StagedAs = staged
		}
	}
}

// update copies the fields that may change from newer objects of the pod's volume.
func (u *use) update(s *source) {
	next := *s
	if old := u.Source; old != nil && u.Published != Absent {
		next.Name, next.Path, next.Block = old.Name, old.Path, old.Block
	}
	u.Source = &next
}

// mayBeMounted reports whether the volume may be staged, or mounted for a pod.
func (r *record) mayBeMounted() bool {
	for _, u := range r.Pods {
		if u.Published != Absent {
			return true
		}
	}
	return r.Staged != Absent
}

// readRecords returns an earlier agent's records. If it cannot read a record, the error names the file: the volume may
// be mounted.
func readRecords(l layout) ([]*record, error) {
	dir := filepath.Join(l.root, recordsDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	errs := []error{err}
	var all []*record
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		r, err := readRecord(root, e.Name())
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", filepath.Join(dir, e.Name()), err))
			continue
		}
		all = append(all, r)
	}
	return all, errors.Join(errs...)
}

func readRecord(root *os.Root, name string) (*record, error) {
	text, err := hostfs.Read(root, name, maxRecord)
	if err != nil {
		return nil, err
	}
	r := &record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, err
	}
	if err := r.Source.check(); err != nil {
		return nil, err
	}
	if filepath.Base(layout{}.record(r.Source.id())) != name {
		return nil, errors.New("the file is the record of another volume")
	}
	for uid, u := range r.Pods {
		if u == nil {
			return nil, fmt.Errorf("pod %s: it is null", uid)
		}
		if u.Source == nil {
			continue
		}
		if err := u.Source.check(); err != nil {
			return nil, fmt.Errorf("pod %s: %w", uid, err)
		}
		if u.Source.id() != r.Source.id() {
			return nil, fmt.Errorf("pod %s: its source is another volume", uid)
		}
	}
	return r, nil
}

// reconstruct updates an earlier agent's record: after a reboot, or if a mount has disappeared, the operation's outcome
// is uncertain. Pods that only waited for the volume are dropped.
func (r *record) reconstruct(l layout, boot string) {
	if r.Pods == nil {
		r.Pods = map[types.UID]*use{}
	}
	if r.Staged == Present && (r.Boot != boot || !stillMounted(r.Mounted, l.staging(&r.Source))) {
		r.Staged = Uncertain
	}
	for uid, u := range r.Pods {
		if u.Published == Absent { // the pod may have ended since. If it has not, SetUp is called for it
			delete(r.Pods, uid)
			continue
		}
		target, err := l.target(uid, r.sourceFor(uid))
		if u.Published == Present && (r.Boot != boot || err != nil || !stillMounted(u.Mounted, target)) {
			u.Published = Uncertain
		}
	}
}

// stillMounted reports whether path is still mounted. It returns true if it was not mounted before.
func stillMounted(was bool, path string) bool {
	if !was {
		return true
	}
	at, err := isMounted(path)
	return at && err == nil
}

// addName adds a volume name in the pod's spec.
func (u *use) addName(volume string) {
	if !slices.Contains(u.Names, volume) {
		u.Names = append(u.Names, volume)
	}
}

// bootID returns an identifier of the node's boot, empty if it is unknown.
func bootID() string {
	text, err := hostfs.ReadPath("/proc/sys/kernel/random/boot_id", 64)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// removeRecord removes a volume's record.
func (l layout) removeRecord(id VolumeID) error {
	if err := os.Remove(l.record(id)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

package loop

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// FileStore is a [StatusStore] of one JSON file a pod, <UID>.json, in a directory
// of its own.
//
// A file is replaced as a whole and only when what it says has changed, so
// whenever the agent is killed, the last record or the one before is there. After a loss of
// power it may be an older one, none, or one that cannot be read, but for pods
// that have finished: that they have is on the disk when SetPodStatus returns,
// since a Job that is done must not be done again. All other pods are started
// anew after a loss of power anyway.
type FileStore struct {
	dir string

	mu   sync.Mutex
	pods map[types.UID]*storedPod
}

var _ StatusStore = (*FileStore)(nil)

// storedPod is what of a file is kept in memory.
type storedPod struct {
	mu sync.Mutex
	// read tells that the sum is known.
	read bool
	sum  [sha256.Size]byte // of the text
}

const (
	recordSuffix = ".json"
	maxRecord    = 4 << 20
)

// NewFileStore returns a store in a directory, which is made when it is needed.
func NewFileStore(dir string) (*FileStore, error) {
	if dir == "" {
		return nil, errors.New("the directory of the store is empty: it must be the path of one")
	}
	return &FileStore{dir: dir, pods: map[types.UID]*storedPod{}}, nil
}

// Load returns all records that can be read. It is no error if the directory
// does not exist.
func (s *FileStore) Load(ctx context.Context) ([]Record, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("records of pods: %w", err)
	}
	var records []Record
	var errs []error
	for _, e := range entries { // sorted by name
		uid, ok := strings.CutSuffix(e.Name(), recordSuffix)
		if !ok || !e.Type().IsRegular() || checkUID(types.UID(uid)) != nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return records, errors.Join(append(errs, err)...)
		}
		switch record, err := s.load(types.UID(uid)); {
		case errors.Is(err, fs.ErrNotExist): // deleted meanwhile
		case err != nil:
			errs = append(errs, err)
		default:
			records = append(records, record)
		}
	}
	return records, errors.Join(errs...)
}

func (s *FileStore) load(uid types.UID) (Record, error) {
	p := s.pod(uid)
	p.mu.Lock()
	defer p.mu.Unlock()
	record, err := s.read(uid, p)
	if errors.Is(err, fs.ErrNotExist) {
		s.forget(uid)
	}
	return record, err
}

// SetPodStatus replaces the status of a pod.
func (s *FileStore) SetPodStatus(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	if pod == nil {
		return errors.New("record of a pod: the pod is nil")
	}
	if err := checkUID(pod.UID); err != nil {
		return fmt.Errorf("record of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	p := s.pod(pod.UID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.read {
		_, _ = s.read(pod.UID, p) // what cannot be read is replaced
	}
	record := Record{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Status: status}
	if err := s.update(p, record); err != nil {
		return fmt.Errorf("record of pod %s: %w", pod.UID, err)
	}
	return nil
}

// Delete removes the file of a pod.
func (s *FileStore) Delete(_ context.Context, uid types.UID) error {
	if err := checkUID(uid); err != nil {
		return err
	}
	p := s.pod(uid)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := os.Remove(s.path(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record of pod %s: %w", uid, err)
	}
	s.forget(uid)
	return nil
}

func (s *FileStore) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
}

// pod returns what is known of a file.
func (s *FileStore) pod(uid types.UID) *storedPod {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	if p == nil {
		p = &storedPod{}
		s.pods[uid] = p
	}
	return p
}

// update writes a record, if it is not what the file holds.
func (s *FileStore) update(p *storedPod, record Record) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	if p.sum == sum {
		return nil
	}
	if err := s.write(record.UID, text, record.finished()); err != nil {
		return err
	}
	p.sum = sum
	return nil
}

func (s *FileStore) path(uid types.UID) string {
	return filepath.Join(s.dir, string(uid)+recordSuffix)
}

// read returns what is in the file of a pod and keeps in p what is kept of it:
// nothing if there is no file, or none of use.
func (s *FileStore) read(uid types.UID, p *storedPod) (Record, error) {
	p.read, p.sum = true, [sha256.Size]byte{}
	text, err := readBounded(s.path(uid))
	var record Record
	if err == nil {
		err = json.Unmarshal(text, &record)
	}
	if err == nil && record.UID != uid {
		err = fmt.Errorf("it is that of %q", record.UID)
	}
	if err != nil {
		return Record{}, fmt.Errorf("record of pod %s in %s, which is passed over: %w", uid, s.dir, err)
	}
	p.sum = sha256.Sum256(text)
	return record, nil
}

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxRecord+1))
	if err == nil && len(text) > maxRecord {
		err = fmt.Errorf("it has more than %d bytes", maxRecord)
	}
	return text, err
}

// write replaces a file. If it is to last, it is on the disk in the end.
func (s *FileStore) write(uid types.UID, text []byte, lasting bool) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	temporary := filepath.Join(s.dir, "."+string(uid)+".tmp") // what is left of one is overwritten
	if err := writeFile(temporary, text, lasting); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, s.path(uid)); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if lasting {
		return syncDir(s.dir)
	}
	return nil
}

func writeFile(path string, text []byte, lasting bool) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil && lasting {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// checkUID reports what is wrong with a UID that becomes the name of a file.
func checkUID(uid types.UID) error {
	if uid == "" {
		return errors.New("metadata.uid is empty")
	}
	if problems := validation.IsValidLabelValue(string(uid)); len(problems) > 0 {
		return fmt.Errorf("metadata.uid %q: %s", uid, strings.Join(problems, ", "))
	}
	return nil
}

// finished reports whether the pod has ended for good.
func (r *Record) finished() bool {
	return r.Status.Phase == v1.PodSucceeded || r.Status.Phase == v1.PodFailed
}

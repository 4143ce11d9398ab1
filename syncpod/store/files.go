package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	goruntime "runtime"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/podfile"
	"github.com/podsync/podsync/runtime"
)

// Files is a [Store] with one JSON file for each pod, <UID>.json, in its own directory.
//
// A file is replaced atomically and only when its contents have changed, so if the agent is killed,
// the last status or the one before exists. After a power failure it may be an older one, none, or
// unreadable, except for finished pods: their status is on the disk when SetStatus returns,
// because a finished Job must not run again. All other pods are started again after a power failure
// anyway.
type Files struct {
	dir   podfile.Dir
	turns podfile.Turns

	mu   sync.Mutex
	pods map[types.UID]*storedPod
	// listed means that pods contains every pod with a file.
	listed bool
}

var _ Store = (*Files)(nil)

// storedPod is the in-memory state of a pod's file. Its lock is held while the file is read,
// written or removed.
type storedPod struct {
	mu sync.Mutex
	// read means that sum is the file's text hash, zero if there is no usable file.
	read bool
	sum  [sha256.Size]byte
}

// NewFiles returns Files in a directory, which is created when it is needed.
func NewFiles(dir string) (*Files, error) {
	if dir == "" {
		return nil, errors.New("the directory of the statuses is empty: it must be the path of one")
	}
	return &Files{dir: podfile.Dir(dir), turns: podfile.NewTurns(), pods: map[types.UID]*storedPod{}}, nil
}

// Load returns all statuses that can be read. It is no error if the directory
// does not exist.
func (s *Files) Load(ctx context.Context) ([]Status, error) {
	uids, err := s.dir.List()
	if err != nil {
		return nil, fmt.Errorf("statuses of pods: %w", err)
	}
	s.know(uids)
	read := s.loadAll(ctx, uids)
	if err := ctx.Err(); err != nil {
		read = append(read, loaded{err: err})
	}
	var all []Status
	var errs []error
	lost := true
	for _, r := range read {
		switch {
		case errors.Is(r.err, fs.ErrNotExist): // deleted in the meantime
		case r.err != nil:
			errs = append(errs, r.err)
			lost = lost && errors.Is(r.err, podfile.ErrDamaged)
		default:
			all = append(all, r.status)
		}
	}
	err = errors.Join(errs...)
	if err != nil && lost {
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return all, err
}

// loaded is the result of reading a file.
type loaded struct {
	status Status
	err    error
}

// loadAll reads files until ctx ends, as many at a time as there are processors, because parsing takes most of the
// time.
func (s *Files) loadAll(ctx context.Context, uids []types.UID) []loaded {
	all := make([]loaded, len(uids))
	var next atomic.Int64
	var readers sync.WaitGroup
	for range min(goruntime.GOMAXPROCS(0), len(uids)) {
		readers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(uids) {
					return
				}
				all[i].status, all[i].err = s.load(uids[i])
			}
		})
	}
	readers.Wait()
	return all[:min(int(next.Load()), len(uids))]
}

// know records which pods have a file, so that no file of another pod is read.
func (s *Files) know(uids []types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uid := range uids {
		if s.pods[uid] == nil {
			s.pods[uid] = &storedPod{}
		}
	}
	s.listed = true
}

func (s *Files) load(uid types.UID) (Status, error) {
	p := s.lock(uid)
	defer p.mu.Unlock()
	stored, err := s.read(uid, p)
	if errors.Is(err, fs.ErrNotExist) {
		s.forget(uid)
	}
	return stored, err
}

// SetStatus replaces the pod's file.
func (s *Files) SetStatus(_ context.Context, stored Status) error {
	text, err := stored.MarshalJSON() // called directly, because json.Marshal would compact the text in a second pass
	if err != nil {
		return fmt.Errorf("status of pod %s: %w", stored.UID, err)
	}
	p := s.lock(stored.UID)
	defer p.mu.Unlock()
	if !p.read {
		_, _ = s.read(stored.UID, p) // an unreadable file is replaced
	}
	sum := sha256.Sum256(text)
	if p.sum == sum {
		return nil
	}
	if err := s.write(stored.UID, text, runtime.IsTerminal(stored.Status.Phase)); err != nil {
		return fmt.Errorf("status of pod %s/%s: %w", stored.Namespace, stored.Name, err)
	}
	p.read, p.sum = true, sum
	return nil
}

// write replaces a file. If lasting is set, the file is on the disk when write returns.
func (s *Files) write(uid types.UID, text []byte, lasting bool) error {
	defer s.turns.Take()()
	return s.dir.Replace(uid, text, lasting)
}

// Delete removes a pod's file.
func (s *Files) Delete(_ context.Context, uid types.UID) error {
	p := s.lock(uid)
	defer p.mu.Unlock()
	release := s.turns.Take()
	err := s.dir.Remove(uid)
	release()
	if err != nil {
		return fmt.Errorf("status of a pod: %w", err)
	}
	s.forget(uid)
	return nil
}

func (s *Files) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
}

// lock returns a pod's file state, locked.
func (s *Files) lock(uid types.UID) *storedPod {
	s.mu.Lock()
	p := s.pods[uid]
	if p == nil {
		p = &storedPod{read: s.listed}
		s.pods[uid] = p
	}
	s.mu.Unlock()
	p.mu.Lock()
	return p
}

// read returns a pod's file contents, and records its sum in p.
func (s *Files) read(uid types.UID, p *storedPod) (Status, error) {
	p.read, p.sum = true, [sha256.Size]byte{}
	text, err := s.dir.Read(uid)
	var stored Status
	if err == nil {
		err = parseStatus(text, uid, &stored)
	}
	if err != nil {
		return Status{}, fmt.Errorf("status of pod %s in %s, which is passed over: %w", uid, s.dir, err)
	}
	p.sum = sha256.Sum256(text)
	return stored, nil
}

func parseStatus(text []byte, uid types.UID, stored *Status) error {
	if err := stored.UnmarshalJSON(text); err != nil { // decoded in one pass, without a separate search for the end
		return fmt.Errorf("%w: %w", podfile.ErrDamaged, err)
	}
	if stored.UID != uid {
		return fmt.Errorf("%w: it is that of %q", podfile.ErrDamaged, stored.UID)
	}
	return nil
}

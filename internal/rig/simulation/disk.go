package simulation

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/store"
)

// file is one of the two files of a pod: its status or its record.
type file struct {
	pod    types.UID
	record bool // or else its status
}

// disk is the storage that outlives an agent: the statuses and records of pods. While it is out of
// order, reads and writes fail.
type disk struct {
	outage
	// unsaved are the pods whose file is out of date: the last attempt to write it, or to read it
	// first, has failed.
	unsaved map[file]bool
	// blind is called for each pod whose record could not be read.
	blind func(types.UID)
	// readable is the time when the current agent could first read all files.
	readable time.Time
	mu       sync.Mutex
	statuses map[types.UID]store.Status
	records  map[types.UID][]byte
	// logs are the pods that have a directory of logs.
	logs map[types.UID]bool
}

var (
	_ store.Store     = (*disk)(nil)
	_ syncpod.Records = (*disk)(nil)
)

func newDisk() *disk {
	return &disk{statuses: map[types.UID]store.Status{}, records: map[types.UID][]byte{}, unsaved: map[file]bool{}, logs: map[types.UID]bool{}}
}

func (d *disk) Load(context.Context) ([]store.Status, error) {
	if err := d.err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []store.Status
	for _, uid := range slices.Sorted(maps.Keys(d.statuses)) {
		all = append(all, d.statuses[uid])
	}
	return all, nil
}

func (d *disk) SetStatus(_ context.Context, s store.Status) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.try(file{s.UID, false}); err != nil {
		return err
	}
	s.Status = *s.Status.DeepCopy()
	d.statuses[s.UID] = s
	return nil
}

func (d *disk) Delete(_ context.Context, uid types.UID) error {
	if err := d.err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.statuses, uid)
	return nil
}

func (d *disk) LoadRecord(_ context.Context, pod types.UID) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.try(file{pod, true}); err != nil {
		d.blind(pod)
		return nil, err
	}
	return d.records[pod], nil
}

func (d *disk) SaveRecord(_ context.Context, pod types.UID, text []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.try(file{pod, true}); err != nil {
		return err
	}
	d.records[pod] = text
	return nil
}

// try notes what becomes of an attempt to write a file, or to read it. It must be called
// with mu held.
func (d *disk) try(f file) error {
	err := d.err()
	if err != nil {
		d.unsaved[f] = true
	} else {
		delete(d.unsaved, f)
	}
	return err
}

// takeUnsaved returns the pods whose state the ending agent could not write completely.
func (d *disk) takeUnsaved() map[types.UID]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	unsaved := map[types.UID]bool{}
	for f := range d.unsaved {
		unsaved[f.pod] = true
	}
	d.unsaved, d.readable = map[file]bool{}, time.Time{}
	return unsaved
}

// readableFrom returns the time when the current agent could first read all files, zero if it could
// not yet.
func (d *disk) readableFrom() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.readable
}

func (d *disk) DeleteRecord(_ context.Context, pod types.UID) error {
	if err := d.err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.records, pod)
	return nil
}

func (d *disk) ListRecords(context.Context) ([]types.UID, error) {
	if err := d.err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.readable.IsZero() {
		d.readable = time.Now()
	}
	return slices.Sorted(maps.Keys(d.records)), nil
}

func (d *disk) hasRecord(pod types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.records[pod]
	return ok
}

func (d *disk) makeLogs(pod types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.logs[pod] = true
}

func (d *disk) removeLogs(pod types.UID) error {
	if err := d.err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.logs, pod)
	return nil
}

// logged returns the pods that have logs, in order.
func (d *disk) logged() []types.UID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.logs))
}

// remembered returns the pods that something is kept of, in order.
func (d *disk) remembered() []types.UID {
	d.mu.Lock()
	defer d.mu.Unlock()
	uids := slices.AppendSeq(slices.Collect(maps.Keys(d.statuses)), maps.Keys(d.records))
	slices.Sort(uids)
	return slices.Compact(uids)
}

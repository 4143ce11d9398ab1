package simulation

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/loop"
)

// disk is what outlives an agent: statuses, and records of pods. While it is out of
// order, nothing of it can be read or written.
type disk struct {
	outage
	// unsaved are the pods of which the last word could not be written.
	unsaved map[types.UID]bool
	// readable is when the present agent could first read all of it.
	readable time.Time
	mu       sync.Mutex
	statuses map[types.UID]loop.StoredStatus
	records  map[types.UID][]byte
}

var (
	_ loop.StatusStore = (*disk)(nil)
	_ syncpod.Records  = (*disk)(nil)
)

func newDisk() *disk {
	return &disk{statuses: map[types.UID]loop.StoredStatus{}, records: map[types.UID][]byte{}, unsaved: map[types.UID]bool{}}
}

func (d *disk) Load(context.Context) ([]loop.StoredStatus, error) {
	if err := d.err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []loop.StoredStatus
	for _, uid := range slices.Sorted(maps.Keys(d.statuses)) {
		all = append(all, d.statuses[uid])
	}
	return all, nil
}

func (d *disk) SetPodStatus(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.write(pod.UID); err != nil {
		return err
	}
	d.statuses[pod.UID] = loop.StoredStatus{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Status: *status.DeepCopy()}
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

func (d *disk) LoadRecord(_ context.Context, pod types.UID) (r syncpod.Record, err error) {
	if err := d.err(); err != nil {
		return r, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if text := d.records[pod]; text != nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

func (d *disk) SaveRecord(_ context.Context, pod types.UID, r syncpod.Record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.write(pod); err != nil {
		return err
	}
	text, err := json.Marshal(r)
	d.records[pod] = text
	return err
}

// write is the attempt to write something of a pod. Once one has failed, all count as
// failed: there are two files of a pod, and only one of them may be written again. It must be
// called with mu held.
func (d *disk) write(pod types.UID) error {
	err := d.err()
	if err != nil {
		d.unsaved[pod] = true
	}
	return err
}

// takeUnsaved returns the pods of which the agent that ends could not write all.
func (d *disk) takeUnsaved() map[types.UID]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	unsaved := d.unsaved
	d.unsaved, d.readable = map[types.UID]bool{}, time.Time{}
	return unsaved
}

// readableFrom is when the present agent could first read all of it, zero if it could
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

// remembered returns the pods that something is kept of, in order.
func (d *disk) remembered() []types.UID {
	d.mu.Lock()
	defer d.mu.Unlock()
	uids := slices.AppendSeq(slices.Collect(maps.Keys(d.statuses)), maps.Keys(d.records))
	slices.Sort(uids)
	return slices.Compact(uids)
}

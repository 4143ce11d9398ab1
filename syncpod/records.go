package syncpod

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/podfile"
	"github.com/podsync/podsync/syncpod/memory"
)

// recordTimeout limits each operation on records.
const recordTimeout = time.Second

// recordStore stores the pod records, if there are Records.
type recordStore struct {
	to  Records
	log logr.Logger
}

// memoryOf returns a pod's memory, with its record.
func (s *Syncer) memoryOf(ctx context.Context, uid types.UID) *podMemory {
	m := s.known.of(uid)
	m.load(ctx)
	return m
}

// load adds the record to the memory, once. A termination and SetDeadline may call it concurrently: one of them reads
// the record.
func (m *podMemory) load(ctx context.Context) {
	if m.records.to == nil || m.isLoaded() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if m.loading.lock(ctx) != nil {
		return
	}
	defer m.loading.unlock()
	if m.isLoaded() {
		return
	}
	text, err := m.records.to.LoadRecord(ctx, m.uid)
	if err != nil {
		m.records.log.Error(err, "no record of a pod", "podUID", m.uid)
		return
	}
	var r memory.Record
	if text != nil {
		if err := r.UnmarshalJSON(text); err != nil { // the record will never be readable, so the next record replaces it
			m.records.log.Error(err, "the record of a pod is lost", "podUID", m.uid)
			r = memory.Record{}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod.Restore(r)
}

// isLoaded reports whether the record was added.
func (m *podMemory) isLoaded() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pod.Loaded()
}

// Record persists the changes of the pod for the next agent. It does not overwrite an old record that could not be
// loaded.
func (m *podMemory) Record(ctx context.Context) {
	if m.records.to == nil {
		return
	}
	// Records are written one at a time, so that an older one does not replace a newer one.
	m.saving.Lock()
	defer m.saving.Unlock()
	saved, changed := m.unsaved()
	if !changed {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	text, err := saved.Record().MarshalJSON()
	if err == nil {
		err = m.records.to.SaveRecord(ctx, m.uid, text)
	}
	if err != nil {
		m.records.log.Error(err, "the record of a pod was not kept", "podUID", m.uid)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod.Saved(saved)
}

// unsaved returns the content of the next record, and whether it must be written.
func (m *podMemory) unsaved() (record memory.Snapshot, changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pod.Snapshot()
}

// RecordedPods returns the pods that have a record, and those that have devices or CPUs of Config.Extensions, sorted.
// After an agent restart, some of them may no longer exist, and should be forgotten. With an error it returns the pods
// that it has found.
func (s *Syncer) RecordedPods(ctx context.Context) ([]types.UID, error) {
	uids, err := s.listRecords(ctx)
	errs := []error{err}
	if devices := s.config.Extensions.Devices; devices != nil {
		kept, err := devices.KeptPods()
		uids, errs = append(uids, kept...), append(errs, err)
	}
	if cpusets := s.config.Extensions.CPUSets; cpusets != nil {
		kept, err := cpusets.KeptPods()
		uids, errs = append(uids, kept...), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return uids, fmt.Errorf("syncpod: %w", err)
	}
	slices.Sort(uids)
	return slices.Compact(uids), nil
}

func (s *Syncer) listRecords(ctx context.Context) ([]types.UID, error) {
	if s.config.Parts.Records == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	uids, err := s.config.Parts.Records.ListRecords(ctx)
	return slices.Clone(uids), err
}

// Forget drops everything about a removed pod: its logs and the links to them, its record, and the resources that each Cleaner of Config.Extensions
// keeps for it. After an error it may be called again. It must not be called during work on the pod, nor while the
// pod runs.
func (s *Syncer) Forget(ctx context.Context, uid types.UID) error {
	var errs []error
	for _, c := range s.config.Parts.Clean {
		errs = append(errs, c.RemovePod(ctx, uid))
	}
	if logs, ok := s.config.Parts.Logs.(Cleaner); ok { // they are kept until then, for those who read them
		errs = append(errs, logs.RemovePod(ctx, uid))
	}
	err := errors.Join(errs...)
	if err == nil || ctx.Err() == nil { // otherwise a later call continues
		err = errors.Join(err, s.drop(ctx, uid, err != nil))
	}
	if err != nil {
		return fmt.Errorf("syncpod: forget pod %s: %w", uid, err)
	}
	return nil
}

// drop deletes the memory of a pod and its record. If a part of the pod is left on the node, its record becomes empty
// instead: the next agent finds the pod by it, and a new pod with the UID has not run.
func (s *Syncer) drop(ctx context.Context, uid types.UID, partLeft bool) error {
	s.known.take(uid).close()
	s.config.Parts.Sandboxes.Forget(uid)
	s.config.Parts.Images.Forget(uid)
	if s.config.Parts.Records == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	var err error
	if partLeft {
		var text []byte
		if text, err = (memory.Record{}).MarshalJSON(); err == nil {
			err = s.config.Parts.Records.SaveRecord(ctx, uid, text)
		}
	} else {
		err = s.config.Parts.Records.DeleteRecord(ctx, uid)
	}
	s.known.deleted(uid, err)
	return err
}

// FileRecords are [Records] in a directory: a file <UID>.json for each pod, which is replaced
// atomically.
//
// If the agent is killed, the last record or the one before exists. Writes are not synced to disk,
// because each start of a container would have to wait: after a power failure a record may be old
// or lost. Nothing runs any more then, and the runtime reports what has run.
type FileRecords struct {
	// Dir is the directory. It is created when the first record is saved.
	Dir string

	turns podfile.Turns
}

// NewFileRecords returns FileRecords that limit the number of concurrent operations, so that a slow disk does not hold a
// thread of the operating system for each pod.
func NewFileRecords(dir string) FileRecords {
	return FileRecords{Dir: dir, turns: podfile.NewTurns()}
}

// LoadRecord reads a file.
func (f FileRecords) LoadRecord(_ context.Context, pod types.UID) ([]byte, error) {
	defer f.turns.Take()()
	text, err := podfile.Dir(f.Dir).Read(pod)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, f.wrap(err)
}

// SaveRecord replaces a file.
func (f FileRecords) SaveRecord(_ context.Context, pod types.UID, text []byte) error {
	defer f.turns.Take()()
	return f.wrap(podfile.Dir(f.Dir).Replace(pod, text, false))
}

// DeleteRecord removes a file.
func (f FileRecords) DeleteRecord(_ context.Context, pod types.UID) error {
	defer f.turns.Take()()
	return f.wrap(podfile.Dir(f.Dir).Remove(pod))
}

// ListRecords reads the directory.
func (f FileRecords) ListRecords(context.Context) ([]types.UID, error) {
	pods, err := podfile.Dir(f.Dir).List()
	return pods, f.wrap(err)
}

func (f FileRecords) wrap(err error) error {
	if err != nil {
		return fmt.Errorf("records in %q: %w", f.Dir, err)
	}
	return nil
}

package syncpod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/internal/memory"
)

// Records persist the state that must outlive the agent, one Record for each pod. *[FileRecords]
// keeps them in files. The methods are called concurrently for different pods, but LoadRecord and
// SaveRecord do not overlap for one pod; each has one second. Failures are logged and block
// nothing.
//
// Without Records, a Syncer knows after a restart of the agent only what the runtime and the logs
// show. Then
//
//   - a pod that was being stopped gets its whole grace period again, and its
//     preStop handlers run again;
//   - a container whose start was interrupted counts as exited with the runtime's error,
//     so that a pod that may not restart fails;
//   - an interrupted postStart handler does not run again (kubernetes #122803);
//   - a container that must run once, and that the runtime has lost while the agent was
//     down, runs again, with an event that says so (kubernetes #51142);
//   - containers whose resources have changed in the meantime keep their old resources;
//   - a crashing container is restarted without back-off.
type Records interface {
	// LoadRecord returns the record of a pod, the zero Record if there is none. ErrRecordLost means
	// that the stored record is unusable and can be replaced. After any other error the Syncer does
	// not save the record until LoadRecord succeeds.
	LoadRecord(ctx context.Context, pod types.UID) (Record, error)
	// SaveRecord replaces the record of a pod, all of it or nothing.
	SaveRecord(ctx context.Context, pod types.UID, r Record) error
	// DeleteRecord deletes the record of a pod. It succeeds if there is none.
	DeleteRecord(ctx context.Context, pod types.UID) error
	// ListRecords returns the pods that have a record, sorted.
	ListRecords(ctx context.Context) ([]types.UID, error)
}

// ErrRecordLost is what Records.LoadRecord returns of a record that cannot be read
// and never will be.
var ErrRecordLost = errors.New("the record is lost")

// Record is what should outlive the agent of one pod. It can be written as JSON, and
// says there which version of the format that is.
type Record struct {
	// Deadline is the end of the pod's grace period, zero while it may run.
	Deadline time.Time
	// NextAttempts are the lowest attempts of the next instances, by container.
	NextAttempts map[string]uint32
	// EverStarted are the containers with an instance that was started, sorted.
	EverStarted []string
	// Exited are the current instances that have exited, by name, sorted.
	Exited []runtime.ContainerStatus
	// Started are the current instances that were started and not seen to end, of those
	// containers that are to run once, by name, sorted.
	Started []runtime.ContainerStatus
	// PostStartPending are the runtime's IDs of instances whose postStart handler has yet
	// to end, sorted. An ID is entered before its instance is started.
	PostStartPending []string
	// StartRequested are the IDs of instances whose start was requested, sorted, and of instances
	// that are stopped before that, in order to be removed. An ID is added before the request, and
	// may stay for some time after the response.
	StartRequested []string
	// PreStopCompleted are the IDs of instances whose preStop handler has finished, sorted.
	PreStopCompleted []string
	// Resources are those in force, by the ID of the instance.
	Resources map[string]runtime.ContainerResources
	// CrashBackOffs are those of containers that ended again and again, by container. Each
	// container of the pod has one at most.
	CrashBackOffs map[string]CrashBackOff
}

// CrashBackOff is the back-off of a container that ends again and again.
type CrashBackOff struct {
	// Definition stands for the container's image and resources: the back-off holds for no
	// others.
	Definition string
	// Failures is how many ends of the container count, at most 64. Only the last one is
	// described here.
	Failures int
	// ID is the instance that ended last, FinishedAt when it did by the runtime's clock, and
	// CountedAt the time by the agent's clock from which the wait counts.
	ID                    runtime.ContainerID
	FinishedAt, CountedAt time.Time
}

// toMemory returns the record as package memory has it.
func (r Record) toMemory() memory.Record {
	return memory.Record{
		Deadline: r.Deadline, NextAttempts: r.NextAttempts, EverStarted: r.EverStarted, Exited: r.Exited, Started: r.Started,
		PostStartPending: r.PostStartPending, StartRequested: r.StartRequested, PreStopCompleted: r.PreStopCompleted, Resources: r.Resources,
		CrashBackOffs: eachValue(r.CrashBackOffs, func(c CrashBackOff) memory.CrashBackOff { return memory.CrashBackOff(c) }),
	}
}

// recordOf returns the exported form of a record of package memory.
func recordOf(r memory.Record) Record {
	return Record{
		Deadline: r.Deadline, NextAttempts: r.NextAttempts, EverStarted: r.EverStarted, Exited: r.Exited, Started: r.Started,
		PostStartPending: r.PostStartPending, StartRequested: r.StartRequested, PreStopCompleted: r.PreStopCompleted, Resources: r.Resources,
		CrashBackOffs: eachValue(r.CrashBackOffs, func(c memory.CrashBackOff) CrashBackOff { return CrashBackOff(c) }),
	}
}

// eachValue converts the values of a map; nil stays nil.
func eachValue[K comparable, A, B any](m map[K]A, to func(A) B) (converted map[K]B) {
	for k, a := range m {
		put(&converted, k, to(a))
	}
	return converted
}

// MarshalJSON writes the newest version of the format.
func (r Record) MarshalJSON() ([]byte, error) { return r.toMemory().MarshalJSON() }

// UnmarshalJSON reads all versions. Of a newer version than this agent's it reads the fields that
// have the same names.
func (r *Record) UnmarshalJSON(text []byte) error {
	var read memory.Record
	if err := read.UnmarshalJSON(text); err != nil {
		return err
	}
	*r = recordOf(read)
	return nil
}

// recordTimeout limits each operation on records.
const recordTimeout = time.Second

// remember returns the memory of a pod, with its record.
func (s *Syncer) remember(ctx context.Context, uid types.UID) *podMemory {
	m := s.known.of(uid)
	s.load(ctx, m)
	return m
}

// load adds the record to the memory, once. The start of a termination and the setting of its
// deadline may happen concurrently: one of them reads.
func (s *Syncer) load(ctx context.Context, m *podMemory) {
	if s.config.Deps.Records == nil || ask(m, (*memory.Pod).Loaded) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if m.loading.take(ctx) != nil {
		return
	}
	defer m.loading.end()
	if ask(m, (*memory.Pod).Loaded) {
		return
	}
	r, err := s.config.Deps.Records.LoadRecord(ctx, m.uid)
	if err != nil {
		s.config.Log.Error(err, "no record of a pod", "podUID", m.uid)
	}
	switch {
	case errors.Is(err, ErrRecordLost):
		m.do(func(p *memory.Pod) { p.Restore(memory.Record{}) })
	case err == nil:
		m.do(func(p *memory.Pod) { p.Restore(r.toMemory()) })
	}
}

// record persists the changes of a pod. It does not overwrite an old record that could not be
// loaded.
func (s *Syncer) record(ctx context.Context, m *podMemory) {
	if s.config.Deps.Records == nil {
		return
	}
	// One at a time, lest an older record replaces a newer one.
	m.saving.Lock()
	defer m.saving.Unlock()
	var saved memory.Snapshot
	var news bool
	if m.do(func(p *memory.Pod) { saved, news = p.Snapshot() }); !news {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := s.config.Deps.Records.SaveRecord(ctx, m.uid, recordOf(saved.Record())); err != nil {
		s.config.Log.Error(err, "the record of a pod was not kept", "podUID", m.uid)
		return
	}
	m.do(func(p *memory.Pod) { p.Saved(saved) })
}

// RecordedPods returns the pods that have a record, and those for which an [OrphanLister] of
// Config.Extensions holds state, sorted: after a restart of the agent, some of them may no longer
// exist, and should be forgotten. With an error it returns the known ones.
func (s *Syncer) RecordedPods(ctx context.Context) ([]types.UID, error) {
	uids, err := s.listRecords(ctx)
	errs := []error{err}
	for _, c := range s.config.Extensions.Clean {
		if l, ok := c.(OrphanLister); ok {
			kept, err := l.KeptPods()
			uids, errs = append(uids, kept...), append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return uids, fmt.Errorf("syncpod: %w", err)
	}
	slices.Sort(uids)
	return slices.Compact(uids), nil
}

func (s *Syncer) listRecords(ctx context.Context) ([]types.UID, error) {
	if s.config.Deps.Records == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	uids, err := s.config.Deps.Records.ListRecords(ctx)
	return slices.Clone(uids), err
}

// Forget drops everything about a removed pod: its record, and the state of each [OrphanCleaner] in
// Config.Extensions.Clean. After an error it may be called again. It must not be called during work
// on the pod, nor while anything of the pod runs.
func (s *Syncer) Forget(ctx context.Context, uid types.UID) error {
	var errs []error
	for _, c := range s.config.Extensions.Clean {
		if remains, ok := c.(OrphanCleaner); ok {
			errs = append(errs, remains.RemovePod(ctx, uid))
		}
	}
	err := errors.Join(errs...)
	if err == nil || ctx.Err() == nil { // otherwise the record must tell the next agent about the rest
		err = errors.Join(err, s.drop(ctx, uid))
	}
	if err != nil {
		return fmt.Errorf("syncpod: forget pod %s: %w", uid, err)
	}
	return nil
}

// drop drops the memory of a pod and its record.
func (s *Syncer) drop(ctx context.Context, uid types.UID) error {
	s.known.take(uid).close()
	s.config.Deps.Sandboxes.Forget(uid)
	s.config.Deps.Images.Forget(uid)
	if s.config.Deps.Records == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := s.config.Deps.Records.DeleteRecord(ctx, uid)
	s.known.deleted(uid, err)
	return err
}

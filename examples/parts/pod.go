package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/syncpod/container/start"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/status"
	"github.com/podsync/podsync/syncpod/store"
)

// maxRecord bounds the record of a pod.
const maxRecord = 1 << 20

// podState is what the agent remembers of a pod. Its record outlives the agent.
type podState struct {
	agent     *agent
	uid       types.UID
	busy      atomic.Int32 // works in flight
	stoppedAt time.Time    // guarded by the agent's mu

	lock     sync.Mutex
	memory   memory.Pod
	failures memory.Failures[status.Problem]
	problems map[string]status.Problem // by container, why it does not run
	last     *v1.PodStatus
}

// state returns the state of a pod, with its record.
func (a *agent) state(uid types.UID) *podState {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.known[uid]
	if p == nil {
		limits := &memory.Limits{}
		p = &podState{agent: a, uid: uid, memory: memory.New(limits), failures: memory.NewFailures[status.Problem](limits), problems: map[string]status.Problem{}}
		a.known[uid] = p
		if text, err := hostfs.ReadPath(a.record(uid), maxRecord); err == nil {
			var r memory.Record
			if json.Unmarshal(text, &r) == nil {
				p.memory.Restore(r)
			}
		}
	}
	return p
}

func (a *agent) record(uid types.UID) string {
	return filepath.Join(a.root, "records", string(uid)+".json")
}

// do calls f with the memory, and records what has changed for the next agent.
func (p *podState) do(f func(*memory.Pod)) {
	p.lock.Lock()
	defer p.lock.Unlock()
	f(&p.memory)
	snapshot, changed := p.memory.Snapshot()
	if !changed {
		return
	}
	text, err := json.Marshal(snapshot.Record())
	if err == nil {
		err = os.MkdirAll(filepath.Dir(p.agent.record(p.uid)), 0o700)
	}
	if err == nil && hostfs.Replace(p.agent.record(p.uid), text, false) == nil {
		p.memory.Saved(snapshot)
	}
}

// Mark, Unmark, Marked and Record make the state a lifecycle.Memory.
func (p *podState) Mark(id string, what memory.Mark) (first bool) {
	p.do(func(m *memory.Pod) { first = m.Instances.Mark(id, what) })
	return first
}

func (p *podState) Unmark(id string, what memory.Mark) {
	p.do(func(m *memory.Pod) { m.Instances.Unmark(id, what) })
}

func (p *podState) Marked(id string, what memory.Mark) (marked bool) {
	p.do(func(m *memory.Pod) { marked = m.Instances.Marked(id, what) })
	return marked
}

func (p *podState) Record(context.Context) {}

// Used and NameReserved make it a start.Attempts.
func (p *podState) Used(_ context.Context, container string, attempt uint32, _ bool) {
	p.do(func(m *memory.Pod) { m.Containers.Used(container, attempt) })
}

func (p *podState) NameReserved(container string) (enough bool) {
	p.do(func(m *memory.Pod) { enough = m.Containers.NameReserved(container, start.NameReservedRetries) })
	return enough
}

// observe remembers what the runtime may lose, such as exit codes.
func (a *agent) observe(_ context.Context, seen *runtime.PodStatus) {
	a.state(seen.UID).do(func(m *memory.Pod) { m.Observe(seen) })
}

// see completes a status that was just read with what the runtime has lost.
func (p *podState) see(seen *runtime.PodStatus) (complete *runtime.PodStatus) {
	p.do(func(m *memory.Pod) {
		seen = m.SetAsideCutStarts(seen)
		m.See(seen)
		complete = m.Instances.WithResources(m.Containers.WithStarts(m.Containers.WithSeen(seen)))
	})
	return complete
}

// publish computes the status, stores it and reports it.
func (p *podState) publish(ctx context.Context, pod *v1.Pod, seen *runtime.PodStatus, terminal, ended bool) error {
	in := status.Input{Pod: pod, Terminal: terminal, Ended: ended, Now: time.Now(), Probes: p.agent.probes.ProbeResults(p.uid)}
	p.lock.Lock()
	defer p.lock.Unlock()
	in.Status, in.Previous, in.StartErrors = p.memory.Containers.WithSeen(p.memory.Instances.WithoutCutStarts(seen)), p.last, p.problems
	in.Evicted = p.memory.Evicted()
	in.StartsOver = !terminal && p.memory.StartsOver(pod, seen, false)
	previous := p.last
	if previous == nil {
		previous = &pod.Status
	}
	merged := status.Merge(previous, status.GeneratePodStatus(in))
	p.last = &merged
	if err := p.agent.store.SetStatus(ctx, store.Status{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Status: merged}); err != nil {
		return err
	}
	p.agent.report(p.uid, merged)
	return nil
}

// forget removes the records of a pod.
func (a *agent) forget(ctx context.Context, uid types.UID) error {
	a.sandboxes.Forget(uid)
	a.images.Forget(uid)
	a.probes.Forget(uid)
	err := a.store.Delete(ctx, uid)
	if gone := os.Remove(a.record(uid)); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	if err == nil {
		a.mu.Lock()
		delete(a.known, uid)
		if a.working[uid].desired == nil { // otherwise a new pod with this UID follows
			delete(a.working, uid)
		}
		a.mu.Unlock()
		a.look()
	}
	return err
}

package csi

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// enqueue wakes the goroutine that works on a volume, or starts one. The goroutine ends when no step is left. The caller
// holds the lock.
func (m *Manager) enqueue(id VolumeID) {
	e := m.volumes[id]
	if m.running == nil || e == nil {
		return
	}
	select {
	case e.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
	if !e.working {
		e.working = true
		ctx := m.running
		m.workers.Go(func() { m.work(ctx, id, e) })
	}
}

// work executes one volume's steps, one at a time.
func (m *Manager) work(ctx context.Context, id VolumeID, e *entry) {
	for ctx.Err() == nil {
		select {
		case <-e.wake: // the facts are read below
		default:
		}
		m.readAttachment(ctx, e)
		m.mu.Lock()
		e.dropEnded()
		state, want := m.facts(e)
		plan := Decide(time.Now(), State{id: state}, Desired{id: want})
		step, ok := next(plan)
		if !ok && len(plan) == 0 && len(e.wake) == 0 {
			e.working = false
			m.forget(id, e)
			m.mu.Unlock()
			return
		}
		e.recordWaits(plan)
		if ok {
			m.execute(ctx, e, step)
			continue
		}
		m.mu.Unlock()
		if len(plan) > 0 {
			e.waitUntilDue(ctx, plan)
		}
	}
	m.mu.Lock()
	e.working = false
	m.mu.Unlock()
}

// dropEnded removes the pods that have ended and do not have the volume. The caller holds the lock.
func (e *entry) dropEnded() {
	maps.DeleteFunc(e.record.Pods, func(_ types.UID, u *use) bool { return u.Ended && u.Published == Absent })
}

// next returns the first step of a plan that does not wait.
func next(plan Plan) (Step, bool) {
	i := slices.IndexFunc(plan, func(s Step) bool { return s.Action != Wait })
	if i < 0 {
		return Step{}, false
	}
	return plan[i], true
}

// recordWaits records which pods wait, and wakes their callers. The caller holds the lock.
func (e *entry) recordWaits(plan Plan) {
	clear(e.waits)
	for _, s := range plan {
		if s.Action == Wait {
			e.waits[s.Pod] = s
		}
	}
	e.notifyWaiters()
}

// notifyWaiters wakes all callers that wait for a change to the entry. The caller must hold the lock.
func (e *entry) notifyWaiters() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// waitUntilDue waits until a step of the plan is due, or until enqueue wakes it.
func (e *entry) waitUntilDue(ctx context.Context, plan Plan) {
	var until <-chan time.Time
	if wait := untilDue(time.Now(), plan); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		until = timer.C
	}
	select {
	case <-ctx.Done():
	case <-e.wake:
	case <-until:
	}
}

// untilDue returns the time until the first blocked step can be retried, zero if no step waits for time alone.
func untilDue(now time.Time, plan Plan) time.Duration {
	var wait time.Duration
	for _, s := range plan {
		d := time.Duration(0)
		switch s.Reason {
		case BackOff:
			d = max(s.Until.Sub(now), time.Millisecond)
		case NotAttached:
			d = attachPause
		}
		if d > 0 && (wait == 0 || d < wait) {
			wait = d
		}
	}
	return wait
}

// facts returns the known state of a volume, and the state that pods want. The caller holds the lock.
func (m *Manager) facts(e *entry) (Volume, DesiredVolume) {
	r := e.record
	v := Volume{Staged: r.Staged, Published: map[types.UID]Condition{}, Expanded: r.Expanded, Attached: e.attached, NotBefore: maps.Clone(e.notBefore), Ready: true}
	w := DesiredVolume{Exclusive: r.Source.exclusive(), Size: r.Source.Size}
	switch r.Source.Plugin {
	case localPlugin:
		v.Stages, v.Expands = !r.Source.Block, !r.Source.Block
	case csiPlugin:
		d := m.drivers[r.Source.Driver]
		v.Ready = d != nil
		v.Stages = d != nil && d.stages && !r.Source.Ephemeral
		v.Expands = d != nil && d.expands && !r.Source.Ephemeral
	}
	for uid, u := range r.Pods {
		if u.Published != Absent {
			v.Published[uid] = u.Published
		}
		if !u.Ended {
			w.Pods = append(w.Pods, uid)
		}
		if e.republish[uid] {
			w.Republish = append(w.Republish, uid)
		}
	}
	return v, w
}

// readAttachment reads whether the volume is attached, if a pod waits for the attachment.
func (m *Manager) readAttachment(ctx context.Context, e *entry) {
	m.mu.Lock()
	s, missing := e.record.Source, false
	for _, u := range e.record.Pods {
		missing = missing || !u.Ended && u.Published != Present
	}
	m.mu.Unlock()
	if !missing {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	_, err := m.config.Objects.attachment(ctx, &s)
	m.mu.Lock()
	e.attached, e.notAttached = err == nil, err
	m.mu.Unlock()
}

// forget drops a volume that the node no longer has and no pod wants. The caller holds the lock.
func (m *Manager) forget(id VolumeID, e *entry) {
	if !e.record.empty() {
		return
	}
	if err := m.layout.removeRecord(id); err != nil {
		m.config.Log.Error(err, "the record of a volume is not deleted", "volume", id)
	}
	for _, action := range []Action{Stage, Publish, Expand, Unpublish, Unstage} {
		m.retries.Forget(retryKey{id, StepKey{Action: action}})
	}
	delete(m.volumes, id)
	e.notifyWaiters()
}

// execute executes a step: it records that its outcome is uncertain, carries it out, and records the outcome. The caller
// holds the lock since its decision, so that the step still has its pod. execute releases the lock.
func (m *Manager) execute(ctx context.Context, e *entry, step Step) {
	before := e.conditionOf(step.StepKey)
	backend, ok := m.backendOf(e)
	if !ok {
		m.mu.Unlock()
		return // the driver has deregistered
	}
	e.set(step.StepKey, Uncertain)
	err := e.record.write(m.layout, !e.synced)
	e.synced = e.synced || err == nil
	pod := e.podFor(step.Pod)
	s := e.record.Source
	if step.Action != Stage && step.Action != Unstage {
		s = *e.record.sourceFor(types.UID(pod.UID))
	}
	if step.Action == Expand {
		s.Size = e.record.Source.Size
	}
	m.mu.Unlock()
	if err == nil && step.Action == Expand {
		err = m.expanding(ctx, &s)
	}
	if err == nil || step.Action == Unpublish || step.Action == Unstage { // a full disk must not prevent an unmount
		err = carryOut(ctx, backend, step, &s, pod)
	} else {
		err = notStarted{err}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finish(e, step, &s, before, err)
}

// carryOut calls the backend for a step.
func carryOut(ctx context.Context, b backend, step Step, s *source, pod Pod) error {
	switch step.Action {
	case Stage:
		return b.stage(ctx, s, pod)
	case Publish:
		return b.publish(ctx, s, pod)
	case Expand:
		return b.expand(ctx, s, types.UID(pod.UID))
	case Unpublish:
		return b.unpublish(ctx, s, step.Pod)
	}
	return b.unstage(ctx, s)
}

// finish records the outcome of a step that was taken for a source. The caller holds the lock.
func (m *Manager) finish(e *entry, step Step, s *source, before Condition, err error) {
	key := retryKey{step.Volume, step.StepKey}
	if step.Action == Expand && (err == nil || m.running != nil && m.running.Err() == nil) {
		m.expanded(s, err)
	}
	switch {
	case err == nil:
		m.retries.Forget(key)
		delete(e.notBefore, step.StepKey)
		delete(e.failures, step.StepKey)
		m.succeed(e, step, s)
		m.config.Log.Info("volume step", "step", step.String())
	default:
		if !hasEffect(step.Action, err) {
			e.set(step.StepKey, before)
		}
		if m.running != nil && m.running.Err() == nil {
			now := time.Now()
			e.tries++
			e.notBefore[step.StepKey] = m.retries.Advance(key, now, now)
			e.failures[step.StepKey] = failure{err, e.tries}
			m.config.Log.Error(err, "volume step failed", "step", step.String())
		}
	}
	if err := e.record.write(m.layout, false); err != nil {
		m.config.Log.Error(err, "the record of a volume cannot be written", "volume", step.Volume)
	}
	e.notifyWaiters()
}

// succeed records that a step has succeeded for a source. The caller holds the lock.
func (m *Manager) succeed(e *entry, step Step, s *source) {
	r := e.record
	switch step.Action {
	case Stage:
		r.Staged, r.Boot = Present, m.boot
		r.Mounted, _ = isMounted(m.layout.staging(&r.Source)) // a mount that was never seen is not reported as lost
	case Publish:
		u := r.Pods[step.Pod]
		u.Published, r.Boot = Present, m.boot
		delete(e.republish, step.Pod)
		if target, err := m.layout.target(step.Pod, s); err == nil && !r.Source.Block && r.Source.Plugin != hostPlugin {
			u.Mounted, _ = isMounted(target)
		}
	case Expand:
		r.Expanded = s.Size // the size in the record may have changed since
	case Unpublish:
		delete(r.Pods, step.Pod)
		m.retries.Forget(retryKey{step.Volume, StepKey{Publish, step.Pod}})
		delete(e.notBefore, StepKey{Publish, step.Pod})
		delete(e.failures, StepKey{Publish, step.Pod})
	case Unstage:
		r.Staged, r.Mounted, r.Expanded, r.Source.StagedAs = Absent, false, 0, ""
	}
}

// conditionOf returns a step's known result. The caller holds the lock.
func (e *entry) conditionOf(key StepKey) Condition {
	switch key.Action {
	case Stage, Unstage:
		return e.record.Staged
	case Publish, Unpublish:
		if u := e.record.Pods[key.Pod]; u != nil {
			return u.Published
		}
	}
	return Absent
}

// set sets a step's result. A pod's volume stays Present while it is republished. The caller holds the lock.
func (e *entry) set(key StepKey, c Condition) {
	switch key.Action {
	case Stage, Unstage:
		e.record.Staged = c
	case Publish, Unpublish:
		if u := e.record.Pods[key.Pod]; u != nil && !(key.Action == Publish && e.republish[key.Pod]) {
			u.Published = c
		}
	}
}

// podFor returns a step's pod. If the step concerns all pods, it returns a pod that has the volume, or else one that
// wants it, and prefers one with the PersistentVolume of the record. The caller holds the lock.
func (e *entry) podFor(uid types.UID) Pod {
	if u := e.record.Pods[uid]; u != nil {
		return u.Pod
	}
	var pod Pod
	best := -1
	for _, uid := range slices.Sorted(maps.Keys(e.record.Pods)) {
		u, rank := e.record.Pods[uid], 0
		if u.Published == Present {
			rank += 2
		}
		if u.Source == nil || u.Source.Name == e.record.Source.Name {
			rank++
		}
		if !u.Ended && rank > best {
			pod, best = u.Pod, rank
		}
	}
	return pod
}

// backendOf returns the backend that carries out a volume's steps. It returns false while the driver is not
// registered. The caller holds the lock.
func (m *Manager) backendOf(e *entry) (backend, bool) {
	if e.record.Source.Plugin != csiPlugin {
		return localBackend{m.layout}, true
	}
	d := m.drivers[e.record.Source.Driver]
	return csiBackend{layout: m.layout, objects: &m.config.Objects, driver: d}, d != nil
}

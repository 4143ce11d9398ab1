package dra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// prepare prepares the claims of a pod that are not prepared. Each record names the pod, and the drivers that will be called, before
// the calls: whenever the agent is killed, the next one unprepares what may be prepared.
func (m *Manager) prepare(ctx context.Context, pod *v1.Pod) error {
	if m.isPrepared(pod) {
		return nil
	}
	wants, err := m.resolve(ctx, pod)
	if err != nil {
		return err
	}
	held, release, err := m.lock(ctx, slices.Collect(maps.Keys(wants)))
	if err != nil {
		return err
	}
	defer release()
	var errs []error
	calls := calls{}
	for uid, w := range wants {
		next, err := m.begin(held[uid].record, w, pod.UID, calls)
		if err == nil {
			err = m.save(held[uid], next)
		}
		if err != nil {
			return err
		}
	}
	answers := m.callAll(ctx, calls, (*driver).prepare)
	for uid := range wants {
		next, changed := held[uid].record.clone(), false
		for name, d := range next.Drivers {
			switch a, called := answers[name]; {
			case d.Prepared:
			case !called || a.missing:
				errs = append(errs, fmt.Errorf("DRA driver %s is not registered", name))
			case a.of[uid].err != nil:
				errs = append(errs, a.of[uid].err)
			default:
				d.Prepared, d.Devices, changed = true, a.of[uid].devices, true
				next.Drivers[name] = d
			}
		}
		if changed {
			errs = append(errs, m.save(held[uid], next))
		}
	}
	slices.SortFunc(errs, compareErrors) // the same failure must not become another event each time
	return errors.Join(slices.CompactFunc(errs, func(a, b error) bool { return compareErrors(a, b) == 0 })...)
}

func compareErrors(a, b error) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }

// begin returns the record of a claim that a pod will use, and adds the claim to the calls of its drivers. It fails if an older
// claim with the same name may be prepared.
func (m *Manager) begin(before *record, w *want, pod types.UID, calls calls) (*record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, other := range m.claims {
		if r := other.record; r != nil && uid != w.record.UID && r.Name == w.record.Name && r.Namespace == w.record.Namespace {
			return nil, fmt.Errorf("old ResourceClaim with same name %s and different UID %s still exists", r.Name, uid)
		}
	}
	next := w.record.clone()
	if before != nil {
		next.Pods = maps.Clone(before.Pods)
		for name, d := range before.Drivers {
			if _, allocated := next.Drivers[name]; !allocated && !d.Prepared { // of an earlier allocation: it may need to be unprepared
				d.SkipPrepare = true
			}
			next.Drivers[name] = d
		}
	}
	next.Pods[pod] = w.use
	for name, d := range next.Drivers {
		switch {
		case d.Prepared:
		case d.SkipPrepare:
			d.Prepared, d.Tried = true, true
		case len(m.drivers[name]) > 0:
			d.Tried = true
			calls.add(name, next)
		}
		next.Drivers[name] = d
	}
	return next, nil
}

// unprepare ends the use of claims by a pod. Before the drivers are called, the record no longer says that the claim is prepared.
func (m *Manager) unprepare(ctx context.Context, pod types.UID) error {
	m.mu.Lock()
	var uids []types.UID
	for _, r := range m.recordsOf(pod) {
		uids = append(uids, r.UID)
	}
	m.mu.Unlock()
	held, release, err := m.lock(ctx, uids)
	if err != nil {
		return err
	}
	defer release()
	var errs []error
	var last []*claim
	calls := calls{}
	for _, uid := range uids {
		c := held[uid]
		if c.record == nil {
			continue
		}
		if _, uses := c.record.Pods[pod]; !uses {
			continue
		}
		next := c.record.clone()
		if len(next.Pods) > 1 {
			delete(next.Pods, pod)
			errs = append(errs, m.save(c, next))
			continue
		}
		called := false
		for name, d := range next.Drivers {
			d.Prepared, d.Tried = false, d.Tried && !d.SkipUnprepare
			next.Drivers[name] = d
			called = called || d.Tried
		}
		if called {
			if err := m.save(c, next); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		for name, d := range next.Drivers {
			if d.Tried {
				calls.add(name, next)
			}
		}
		last = append(last, c)
	}
	answers := m.callAll(ctx, calls, (*driver).unprepare)
	for _, c := range last {
		errs = append(errs, m.ended(c, answers))
	}
	return errors.Join(errs...)
}

// ended records the answers of the drivers of a claim that no pod uses any more.
func (m *Manager) ended(c *claim, answers map[string]answer) error {
	next := c.record.clone()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(next.Drivers)) {
		d := next.Drivers[name]
		if !d.Tried || d.SkipUnprepare {
			continue
		}
		switch a, called := answers[name]; {
		case !called || a.missing:
			errs = append(errs, fmt.Errorf("DRA driver %s is not registered", name))
		case a.of[next.UID].err != nil:
			errs = append(errs, a.of[next.UID].err)
		default:
			d.Tried, d.Devices = false, nil
			next.Drivers[name] = d
		}
	}
	if len(errs) > 0 {
		return errors.Join(append(errs, m.save(c, next))...)
	}
	if err := removeRecord(m.config.State, next.UID); err != nil {
		return fmt.Errorf("record of ResourceClaim %s: %w", next.Name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c.record = nil
	return nil
}

// calls are the claims for which each driver is called.
type calls map[string][]*record

func (c calls) add(driver string, r *record) { c[driver] = append(c[driver], r) }

// An answer is the answer of a driver to one call. missing means that the driver is not registered.
type answer struct {
	missing bool
	of      map[types.UID]claimAnswer
}

// claimAnswer is the answer about one claim.
type claimAnswer struct {
	devices []preparedDevice
	err     error
}

// callAll calls all drivers at the same time.
func (m *Manager) callAll(ctx context.Context, calls calls, call func(d *driver, ctx context.Context, claims []*record) map[types.UID]claimAnswer) map[string]answer {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	answers := map[string]answer{}
	var mu sync.Mutex
	var waiting sync.WaitGroup
	for name, claims := range calls {
		d := m.driver(name)
		waiting.Go(func() {
			a := answer{missing: d == nil}
			if d != nil {
				a.of = call(d, ctx, claims)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[name] = a
		})
	}
	waiting.Wait()
	return answers
}

// lock waits until no other call changes the claims, and returns them. release must be called afterwards.
func (m *Manager) lock(ctx context.Context, uids []types.UID) (held map[types.UID]*claim, release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	held = map[types.UID]*claim{}
	release = func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for uid, c := range held {
			if c.record == nil {
				delete(m.claims, uid)
			}
			<-c.busy
		}
	}
	slices.Sort(uids) // two calls with the same claims must not wait for each other
	for _, uid := range uids {
		for held[uid] == nil {
			c := m.claim(uid)
			select {
			case c.busy <- struct{}{}:
			case <-ctx.Done():
				release()
				return nil, nil, fmt.Errorf("wait for another pod with the claim %s: %w", uid, context.Cause(ctx))
			}
			m.mu.Lock()
			if m.claims[uid] == c { // otherwise it was removed meanwhile
				held[uid] = c
			} else {
				<-c.busy
			}
			m.mu.Unlock()
		}
	}
	return held, release, nil
}

// claim returns a claim, a new one if it has no record.
func (m *Manager) claim(uid types.UID) *claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.claims[uid]
	if c == nil {
		c = &claim{busy: make(chan struct{}, 1)}
		m.claims[uid] = c
	}
	return c
}

// save writes a changed record. The caller holds the claim.
func (m *Manager) save(c *claim, r *record) error {
	if err := r.write(m.config.State, m.boot); err != nil {
		return fmt.Errorf("record of ResourceClaim %s: %w", r.Name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c.record = r
	return nil
}

package manager

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/podref"
)

const (
	// cleanUpTimeout is how long the cleanup of a pod that has ended may delay the next eviction,
	// endTimeout how long a pod may exceed its grace period.
	cleanUpTimeout = 30 * time.Second
	endTimeout     = time.Minute
)

// ending is an eviction in flight.
type ending struct {
	// until is the time after which other evictions do not wait for the pod. ended is when the last container in the
	// pod stopped.
	until, ended time.Time
}

// record is the persisted form of an Eviction.
type record struct {
	Signal       eviction.Signal `json:"signal"`
	GraceSeconds int64           `json:"graceSeconds"`
	Message      string          `json:"message"`
	Disruption   bool            `json:"disruption,omitempty"`
}

// evict starts a pod's eviction.
func (m *Manager) evict(ctx context.Context, e eviction.Eviction) {
	podref.Log(m.config.Log, e.Pod).Info("pod evicted", "signal", string(e.Signal), "message", e.Message)
	m.remember(e)
	m.config.Agent.Warn(e.Pod, eviction.Reason, e.Message, e.Annotations)
	m.config.Evicted(e)
	m.carryOut(ctx, e)
}

// carryOut stops a pod in the background. If that fails, the next observation retries.
func (m *Manager) carryOut(ctx context.Context, e eviction.Eviction) {
	uid := e.Pod.UID
	m.mu.Lock()
	m.ending[uid] = &ending{until: time.Now().Add(time.Duration(e.GraceSeconds)*time.Second + endTimeout)}
	m.mu.Unlock()
	m.evictions.Go(func() {
		err := m.config.Agent.Evict(ctx, e)
		switch {
		case err == nil:
			m.forget(uid)
		case ctx.Err() != nil:
			return // the next agent continues
		default:
			m.config.Log.Error(err, "pod not evicted", "podUID", uid)
		}
		m.ended(e, err)
	})
}

// ended records an eviction's result.
func (m *Manager) ended(e eviction.Eviction, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.left[e.Pod.UID] = e
		delete(m.ending, e.Pod.UID)
		return
	}
	m.ending[e.Pod.UID].ended = time.Now()
}

// housekeep returns the pods that are ending, without those that have taken too long. It drops pods
// that have ended.
func (m *Manager) housekeep(now time.Time) []types.UID {
	var list, over []types.UID
	for uid, e := range m.inFlight() {
		switch has := !e.ended.IsZero(); {
		case has && (now.Sub(e.ended) > cleanUpTimeout || m.config.Agent.CleanedUp(uid)):
			over = append(over, uid)
		case has || now.Before(e.until):
			list = append(list, uid)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, uid := range over {
		delete(m.ending, uid)
	}
	slices.Sort(list)
	return list
}

// evicting reports whether a pod's eviction has begun and is not known to have ended.
func (m *Manager) evicting(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, left := m.left[uid]
	return left || m.ending[uid] != nil
}

func (m *Manager) inFlight() map[types.UID]ending {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[types.UID]ending, len(m.ending))
	for uid, e := range m.ending {
		all[uid] = *e
	}
	return all
}

// remember persists an eviction, so that the next agent carries it out.
func (m *Manager) remember(e eviction.Eviction) {
	if m.state == "" {
		return
	}
	if err := m.state.ReplaceJSON(e.Pod.UID, record{e.Signal, e.GraceSeconds, e.Message, e.Disruption}, false); err != nil {
		m.config.Log.Error(err, "an eviction is not remembered", "podUID", e.Pod.UID)
	}
}

func (m *Manager) forget(uid types.UID) {
	if m.state == "" {
		return
	}
	if err := m.state.Remove(uid); err != nil {
		m.config.Log.Error(err, "an eviction is not forgotten", "podUID", uid)
	}
}

// resume continues evictions of an earlier agent, and those that have failed: a pod may not be
// known yet.
func (m *Manager) resume(ctx context.Context) {
	m.restore()
	for uid, e := range m.takeLeft() {
		pod, unwanted := m.config.Agent.Find(uid)
		switch {
		case pod != nil:
			e.Pod = pod
			m.carryOut(ctx, e)
		case unwanted:
			m.forget(uid)
		default:
			m.leave(uid, e)
		}
	}
}

func (m *Manager) takeLeft() map[types.UID]eviction.Eviction {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := m.left
	m.left = map[types.UID]eviction.Eviction{}
	return left
}

func (m *Manager) leave(uid types.UID, e eviction.Eviction) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left[uid] = e
}

// restore reads an earlier agent's evictions, once. Unreadable ones are decided again.
func (m *Manager) restore() {
	if m.restored || m.state == "" {
		return
	}
	uids, err := m.state.List()
	if err != nil {
		m.config.Log.Error(err, "evictions of an earlier agent cannot be read")
		return
	}
	m.restored = true
	for _, uid := range uids {
		var r record
		if err := m.state.ReadJSON(uid, &r); err != nil {
			m.config.Log.Error(err, "an eviction of an earlier agent cannot be read", "podUID", uid)
			m.forget(uid)
			continue
		}
		m.leave(uid, eviction.Eviction{Signal: r.Signal, GraceSeconds: max(r.GraceSeconds, 1), Message: r.Message, Disruption: r.Disruption})
	}
}

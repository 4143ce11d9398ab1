package pressure

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/eviction"
)

const (
	// cleanUpTimeout is how long a pod that has ended may be cleaned up after until another
	// one goes, and endTimeout how long beyond its time to stop it may take to end.
	cleanUpTimeout = 30 * time.Second
	endTimeout     = time.Minute
)

// ending is an eviction in flight.
type ending struct {
	// until is when others wait no longer for its end, ended when nothing of it ran any more.
	until, ended time.Time
}

// record is an Eviction as it is remembered.
type record struct {
	Signal       eviction.Signal `json:"signal"`
	GraceSeconds int64           `json:"graceSeconds"`
	Message      string          `json:"message"`
	Disruption   bool            `json:"disruption,omitempty"`
}

// evict begins to put a pod off the node.
func (m *Manager) evict(ctx context.Context, e eviction.Eviction) {
	m.config.Log.Info("pod evicted", "pod", e.Pod.Namespace+"/"+e.Pod.Name, "podUID", e.Pod.UID, "signal", string(e.Signal), "message", e.Message)
	m.remember(e)
	m.config.Agent.Warn(e.Pod, eviction.Reason, e.Message)
	m.config.Evicted(e)
	m.carryOut(ctx, e)
}

// carryOut stops a pod beside all else. If that fails the next look tries again.
func (m *Manager) carryOut(ctx context.Context, e eviction.Eviction) {
	uid := e.Pod.UID
	m.mu.Lock()
	m.ending[uid] = &ending{until: time.Now().Add(time.Duration(e.GraceSeconds)*time.Second + endTimeout)}
	m.mu.Unlock()
	m.evictions.Go(func() {
		err := m.config.Agent.Evict(ctx, e)
		if err != nil && ctx.Err() == nil {
			m.config.Log.Error(err, "pod not evicted", "podUID", uid)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case err == nil:
			m.ending[uid].ended = time.Now()
			m.forget(uid)
		case ctx.Err() == nil:
			m.left[uid] = e
			delete(m.ending, uid)
		}
	})
}

// sweep returns the pods that are ending, without those that nobody waits for any more.
func (m *Manager) sweep(now time.Time) []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []types.UID
	for uid, e := range m.ending {
		cleaned := !e.ended.IsZero() && (m.config.Agent.CleanedUp(uid) || now.Sub(e.ended) > cleanUpTimeout)
		switch {
		case cleaned:
			delete(m.ending, uid)
		case !e.ended.IsZero() || now.Before(e.until):
			list = append(list, uid)
		}
	}
	slices.Sort(list)
	return list
}

// remember writes an eviction down, so that the next agent carries it out.
func (m *Manager) remember(e eviction.Eviction) {
	if m.state == "" {
		return
	}
	text, err := json.Marshal(record{e.Signal, e.GraceSeconds, e.Message, e.Disruption})
	if err == nil {
		err = m.state.Replace(e.Pod.UID, text, false)
	}
	if err != nil {
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

// resume goes on with evictions of an earlier agent, or that have failed: a pod may not be
// known yet.
func (m *Manager) resume(ctx context.Context) {
	m.mu.Lock()
	m.restore()
	left := m.left
	m.left = map[types.UID]eviction.Eviction{}
	m.mu.Unlock()
	for uid, e := range left {
		pod, unwanted := m.config.Agent.Find(uid)
		switch {
		case pod != nil:
			e.Pod = pod
			m.carryOut(ctx, e)
		case unwanted:
			m.forget(uid)
		default:
			m.mu.Lock()
			m.left[uid] = e
			m.mu.Unlock()
		}
	}
}

// restore reads what an earlier agent has begun. What cannot be read is decided anew. It must
// be called with mu held.
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
		text, err := m.state.Read(uid)
		var r record
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			m.config.Log.Error(err, "an eviction of an earlier agent cannot be read", "podUID", uid)
			m.forget(uid)
			continue
		}
		m.left[uid] = eviction.Eviction{Signal: r.Signal, GraceSeconds: max(r.GraceSeconds, 1), Message: r.Message, Disruption: r.Disruption}
	}
}

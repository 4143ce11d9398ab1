package critest

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// Restart ends all calls in flight, including those with IgnoreCancel, and all event streams with
// Unavailable. It cuts the streams of processes and ports, and drops names reserved without an object.
// It returns immediately; the runtime is then down.
func (r *Runtime) Restart(rs faults.Restart) error {
	if rs.Down < 0 || rs.Sandboxes > faults.EffectUnknown || rs.Containers > faults.EffectUnknown {
		return errors.New("critest: Restart.Down is negative, or a Fate unknown")
	}
	r.mu.Lock()
	r.away, r.refusing = time.Now().Add(rs.Down), rs.Disconnect
	r.endEpoch()
	r.epoch, r.endEpoch = context.WithCancel(r.life)
	var dead []*container
	fate := rs.Containers
	if rs.Sandboxes == faults.EffectRemoved {
		fate = faults.EffectRemoved // no container outlives its sandbox
	}
	for _, c := range r.containersOf("") {
		if r.meet(c, fate) {
			dead = append(dead, c)
		}
	}
	for _, sb := range r.allSandboxes() {
		r.meetSandbox(sb, rs.Sandboxes)
	}
	r.forgetNames()
	r.mu.Unlock()
	for _, c := range dead {
		c.kill()
	}
	r.streams.Forget()
	r.events.disconnect(errAway)
	if rs.Disconnect {
		r.conns.closeAll()
	}
	return nil
}

// meet applies the effect of a restart to a container, and reports whether its process dies of it. It
// must be called with mu held.
func (r *Runtime) meet(c *container, f faults.RestartEffect) (dies bool) {
	live := c.running
	switch {
	case f == faults.EffectRemoved:
		r.forgetContainer(c)
		r.gone(c.id)
	case f == faults.EffectStopped && live:
		c.lose()
		c.ended, c.unseen = &Exit{Code: unknownExitCode, Reason: unknownExitReason}, true
	case f == faults.EffectUnknown && live:
		c.state = runtimeapi.ContainerState_CONTAINER_UNKNOWN
		return false
	default:
		return false
	}
	return live
}

// meetSandbox must be called with mu held.
func (r *Runtime) meetSandbox(sb *sandbox, f faults.RestartEffect) {
	switch f {
	case faults.EffectStopped, faults.EffectUnknown:
		sb.state = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		r.setIPs(sb, nil)
	case faults.EffectRemoved:
		r.forgetSandbox(sb)
		r.gone(sb.id)
	}
}

// forgetNames keeps only the names of existing objects. It requires mu to be held.
func (r *Runtime) forgetNames() {
	clear(r.names)
	clear(r.pending)
	for _, sb := range r.sandboxes {
		r.names[sb.name] = sb.id
	}
	for _, c := range r.containers {
		r.names[c.name] = c.id
	}
}

// isDisconnected reports whether new connections are refused.
func (r *Runtime) isDisconnected() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refusing && time.Now().Before(r.away)
}

// connections are the connections that a server has accepted.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]bool
}

func (cs *connections) closeAll() {
	cs.mu.Lock()
	open := slices.Collect(maps.Keys(cs.open))
	cs.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // an error does not matter: the connection is to be broken
	}
}

func (cs *connections) set(c net.Conn, open bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.open == nil {
		cs.open = map[net.Conn]bool{}
	}
	if open {
		cs.open[c] = true
	} else {
		delete(cs.open, c)
	}
}

// A watchedListener records the connections that it accepts, and refuses connections during a restart
// with Disconnect.
type watchedListener struct {
	net.Listener
	r *Runtime
}

func (l watchedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.r.isDisconnected() {
			_ = c.Close()
			continue
		}
		w := &watchedConn{Conn: c, conns: &l.r.conns}
		l.r.conns.set(w, true)
		return w, nil
	}
}

type watchedConn struct {
	net.Conn
	conns *connections
}

func (c *watchedConn) Close() error {
	c.conns.set(c, false)
	return c.Conn.Close()
}

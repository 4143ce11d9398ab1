package source

import (
	"context"
	"fmt"
	"time"
)

// confirmInterval is the minimum time between two recorded confirmations.
const confirmInterval = time.Minute

// Confirm records that the source's last snapshot is still valid, for example because its server has
// answered a heartbeat. It has an effect once the source has delivered a complete snapshot. It may be
// called often: at most once a minute it replaces a small file next to the pods' one. See
// [CheckpointConfig.MaxAge].
func (r *Checkpoint) Confirm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.pods.complete {
		return
	}
	r.confirmedAt = time.Now()
	if r.recordedAt.IsZero() || r.confirmedAt.Sub(r.recordedAt) >= confirmInterval {
		raise(r.confirmed)
	}
}

// keep writes checkpoints until ctx ends, and then once more.
func (r *Checkpoint) keep(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-r.changed:
			r.write()
		case <-r.confirmed:
			r.record()
			continue
		case <-ctx.Done():
		}
		wait := time.NewTimer(r.config.WriteInterval)
		select {
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
	}
	select {
	case <-r.changed:
		r.write()
	default: // all is written
	}
	r.record()
}

// write writes a checkpoint if the source has delivered a snapshot. If the file could not be read, it writes only
// complete snapshots. A failed write is retried.
func (r *Checkpoint) write() {
	r.mu.Lock()
	pods, complete, wantedAt := r.pods.all(), r.pods.complete, r.pods.wantedAt()
	ready := complete || r.pods.spoken() && r.readErr == nil
	r.mu.Unlock()
	if !ready {
		return
	}
	m := r.data(pods)
	m.SavedAt = wantedAt
	err := r.file.write(m)
	if err != nil {
		r.mayHaveChanged()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := fmt.Sprint(r.readErr, r.writeErr)
	r.writeErr = err
	if err == nil && complete {
		r.readErr = nil
	}
	if fmt.Sprint(r.readErr, r.writeErr) != before {
		raise(r.written)
	}
}

// record writes the last confirmation, if there is a new one. It writes none while the file with the pods could not
// be written, because that file does not have the source's pods.
func (r *Checkpoint) record() {
	r.mu.Lock()
	at := r.confirmedAt
	ready := r.writeErr == nil && at.After(r.recordedAt)
	r.mu.Unlock()
	if !ready {
		return
	}
	recorded, err := r.file.confirm(at)
	r.mu.Lock()
	defer r.mu.Unlock()
	if recorded {
		r.recordedAt = at
	}
	if fmt.Sprint(err) != fmt.Sprint(r.confirmErr) {
		r.confirmErr = err
		raise(r.written)
	}
}

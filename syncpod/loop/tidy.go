package loop

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/pleg"
)

// changed is told by the watcher that the runtime has something else of a pod.
func (l *Loop) changed(uid types.UID, _ *runtime.PodStatus) { l.lookAgain(uid) }

// keepTidy tidies up when there is a reason to, and again while something remains
// to be done. New pods and changes do not wait for it (kubernetes #98607).
func (l *Loop) keepTidy(ctx context.Context) {
	retry := time.NewTimer(0)
	retry.Stop()
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.tidy:
		case <-retry.C:
		}
		if !l.listed.Load() {
			continue
		}
		began := time.Now()
		if again := l.tidyUp(ctx); !again.IsZero() {
			retry.Reset(time.Until(again))
		}
		l.rest(ctx, tidyCost*time.Since(began))
	}
}

// tidyCost is how many times what it took to tidy up is left alone after it: each time all
// pods are gone through, and while many end there is always a reason to.
const tidyCost = 9

func (l *Loop) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(min(d, l.config.HousekeepingInterval))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// tidyUp stops what should not run and forgets what has ended. It returns when to
// try again what could not be done, zero if there is no such thing.
func (l *Loop) tidyUp(ctx context.Context) (again time.Time) {
	wants, pods := l.wanted(), l.watcher.Pods()
	l.stopOrphans(wants, pods)
	l.stopStrays(pods)
	l.forget(ctx)
	l.removeDead(ctx, wants, pods)
	return l.forgetGone(ctx, wants, pods)
}

// forget has the workers forget the pods that nobody wants and that have ended, and
// those that have to make room for a new pod with their UID.
func (l *Loop) forget(ctx context.Context) {
	for _, uid := range l.forgotten() {
		l.forgetPod(ctx, uid)
		l.children.Go(func() { l.removeRemains(ctx, uid) })
	}
}

// forgotten returns the pods that the workers forget, or have forgotten by themselves: a
// pod that was added while what an earlier agent had left of it was stopped is to begin
// when they are done with that, which they do not tell. Until each is forgotten
// altogether, no new pod with its UID comes.
func (l *Loop) forgotten() []types.UID {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, _ := l.workers.Known(l.desired())
	there := make(map[types.UID]bool, len(known))
	for _, k := range known {
		there[k.UID] = true
	}
	var uids []types.UID
	for _, uid := range l.uids() {
		if there[uid] || !l.lives[uid].taken {
			continue
		}
		delete(l.lives, uid)
		l.leaving[uid] = true
		uids = append(uids, uid)
	}
	return uids
}

// desired must be called with mu held.
func (l *Loop) desired() []types.UID {
	var uids []types.UID
	for _, uid := range l.uids() {
		if l.lives[uid].wanted != nil {
			uids = append(uids, uid)
		}
	}
	return uids
}

// forgetPod drops all that is known of a pod before a new one with its UID can come. What
// could not be deleted, be it by the Store or by the Syncer, is left to forgetKept.
func (l *Loop) forgetPod(ctx context.Context, uid types.UID) {
	l.config.Probes.Forget(uid)
	err := l.config.Store.Delete(ctx, uid)
	if err != nil {
		l.config.Log.Error(err, "status not forgotten", "podUID", uid)
	}
	l.book.write(uid, func(p *page) {
		*p = page{working: p.working, stopping: p.stopping, stopped: p.stopped, leftover: true}
	})
}

// forgetGone drops what is kept of pods that are gone, once it is certain that no source
// wants them and nothing of them is left to be stopped. It returns when to try again what
// has failed.
func (l *Loop) forgetGone(ctx context.Context, wants wishes, pods []pleg.Pod) (again time.Time) {
	if !wants.complete {
		return time.Time{} // there will be news
	}
	listed := make(map[types.UID]bool, len(pods))
	for _, p := range pods {
		listed[p.UID] = p.Running || l.config.Client != nil // or else it stays there
	}
	uids, again := l.unclaimed(wants, listed)
	for _, uid := range uids {
		if known := l.book.read(uid); known.kept() {
			l.children.Go(func() { l.forgetKept(ctx, uid) })
			continue
		}
		l.book.forget(uid)
		l.gone(uid)
	}
	return again
}

// forgetKept drops what is kept of a pod that is gone, and lets a new one come.
func (l *Loop) forgetKept(ctx context.Context, uid types.UID) {
	err := l.deleteKept(ctx, uid)
	switch {
	case err == nil:
		l.book.forget(uid)
	case ctx.Err() == nil:
		l.config.Log.Error(err, "a pod that is gone is not forgotten", "podUID", uid)
		l.book.write(uid, func(p *page) {
			p.pause = min(max(2*p.pause, l.config.HousekeepingInterval), maxForgetPause)
			p.leftover, p.due = true, time.Now().Add(p.pause)
			p.status, p.untold = nil, false // a new pod of its UID is not to have it
		})
	}
	l.gone(uid)
	if err != nil {
		l.tidy.raise()
	}
}

// deleteKept deletes the directory of a pod, which may be large, its record and its
// status. By the last two the next agent knows of it, if this one is killed meanwhile.
func (l *Loop) deleteKept(ctx context.Context, uid types.UID) error {
	select {
	case l.forgetting <- struct{}{}:
		defer func() { <-l.forgetting }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := l.syncer.Forget(ctx, uid)
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(err, l.config.Store.Delete(ctx, uid))
}

// maxForgetPause bounds the pause before what is kept of a pod is tried to be deleted again.
const maxForgetPause = time.Minute

// gone lets a new pod with the UID of one that is gone come, if it is wanted by now.
func (l *Loop) gone(uid types.UID) {
	l.left(uid)
	if l.wants(uid) {
		l.news.raise() // it was held up
	}
}

// unclaimed returns the pods that there is something known of, and that neither the
// sources, the workers nor the runtime have. They are leaving until left is called.
// Those that cannot be forgotten have to wait until again, zero if there is none.
func (l *Loop) unclaimed(wants wishes, listed map[types.UID]bool) (uids []types.UID, again time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, uid := range l.book.uids() {
		known := l.book.read(uid)
		switch {
		case wants.has(uid) || l.lives[uid] != nil || l.leaving[uid] || listed[uid] || known.stopping || known.working > 0:
		case known.due.After(time.Now()):
			if again.IsZero() || known.due.Before(again) {
				again = known.due
			}
		default:
			l.leaving[uid] = true
			uids = append(uids, uid)
		}
	}
	return uids, again
}

// left lets a new pod with the UID of one that is gone come.
func (l *Loop) left(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.leaving, uid)
}

package watch

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/base/podreader"
	"github.com/podsync/podsync/runtime/cri"
)

// list reads a list of all pods once and does what follows from it.
func (w *Watcher) list(ctx context.Context) {
	began := w.beginList()
	readCtx, cancel := context.WithTimeout(ctx, lookTimeout)
	pods, err := w.config.Reader.List(readCtx)
	cancel()
	if ctx.Err() != nil {
		return
	}
	w.config.Observer.Listed(len(pods), time.Since(began), err)
	if err != nil {
		w.listFailed(began, err)
		return
	}
	busy := w.busy()
	looks, settled := w.listed(pods, began, busy)
	if settled {
		w.config.Log.V(1).Info("container events are relied on")
		w.config.Observer.Streaming(true)
	}
	w.resume(ctx, looks)
}

func (w *Watcher) beginList() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists.wanted = false
	w.lists.began = time.Now()
	w.lists.reading = true
	return w.lists.began
}

func (w *Watcher) listFailed(began time.Time, err error) {
	w.mu.Lock()
	w.lists.fail(began, err)
	if !errors.Is(err, cri.ErrUnavailable) || w.gate == gateAway {
		w.mu.Unlock()
		return
	}
	away := &UnavailableError{Since: began, Err: err}
	w.away, w.since, w.announced = away, began, false
	w.mu.Unlock()
	w.config.Log.Error(err, "runtime is away")
	if w.shut(gateAway, away) {
		w.config.Observer.Streaming(false)
	}
	w.config.AvailableChanged(away)
}

// listed compares a list with the known state, and returns the resulting inspections and whether
// events are reliable now.
func (w *Watcher) listed(pods []*podreader.ListedPod, began time.Time, busy bool) (looks []*look, settled bool) {
	uids := make([]types.UID, len(pods))
	for i, p := range pods {
		uids[i] = p.UID
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cache.SetListed(uids, began)
	looks = append(w.compare(pods), w.compareMissing(uids, began)...)
	w.lists.succeed(began, w.pace(busy))
	settled = w.stream.settle(began)
	if w.gate != gateOpen {
		w.reopen()
	}
	return looks, settled
}

// compare returns the inspections of changed pods.
func (w *Watcher) compare(pods []*podreader.ListedPod) (looks []*look) {
	for _, listed := range pods {
		p := w.pod(listed.UID)
		if w.readAfter(p, listed.ObservedAt) {
			w.forget(p)
			continue // a look has more to say
		}
		first := p.listed == nil
		p.listed = &Pod{
			UID: p.uid, Name: listed.Name, Namespace: listed.Namespace, Source: listed.Source(),
			Running: listed.Running(), ObservedAt: listed.ObservedAt,
		}
		changed := listed.Changed(p.latest)
		switch {
		case p.next != nil, p.err != nil && w.gate != gateOpen:
			looks = append(looks, w.offer(p, listed))
		case p.err != nil, !changed && awaitsAddress(p.latest):
			// It is looked at again and again by itself.
		case changed:
			looks = append(looks, w.offer(p, listed))
		default:
			w.confirm(p, listed.ObservedAt)
		}
		if first && !changed { // an event has shown it, and the receiver did not find it in Pods
			p.untold = true
			w.wake(p)
		}
	}
	return looks
}

// readAfter reports whether a look that began after a list has read the pod, or reads it
// now. Of a pod that it found gone the Cache alone may know.
func (w *Watcher) readAfter(p *pod, list time.Time) bool {
	if p.newest().After(list) {
		return true
	}
	_, read, err := w.cache.Newer(p.uid, list.Add(1))
	return read && err == nil
}

// confirm enters that a read found a pod as it was.
func (w *Watcher) confirm(p *pod, observed time.Time) {
	status := *p.latest
	status.ObservedAt = observed
	if p.told == p.latest {
		p.told = &status
	}
	w.setLatest(p, &status)
	w.cache.Set(p.uid, p.latest, nil, observed)
}

// compareMissing returns the inspections of pods that are not in the list. They make no call,
// because the list says everything.
func (w *Watcher) compareMissing(uids []types.UID, began time.Time) (looks []*look) {
	there := make(map[types.UID]bool, len(uids))
	for _, uid := range uids {
		there[uid] = true
	}
	for uid, p := range w.pods {
		if there[uid] || p.newest().After(began) || p.listed == nil && p.latest.Empty() && p.err == nil {
			continue
		}
		looks = append(looks, w.offer(p, &podreader.ListedPod{UID: uid, ObservedAt: began}))
	}
	return looks
}

// resume reports that the runtime is available, if that was not reported yet, once the results of
// the inspections were reported or have taken too long.
func (w *Watcher) resume(ctx context.Context, looks []*look) {
	w.mu.Lock()
	news := !w.announced
	w.mu.Unlock()
	if !news {
		return
	}
	patience := time.NewTimer(resumePatience)
	defer patience.Stop()
	for waiting := true; waiting && len(looks) > 0; {
		select {
		case <-looks[0].told:
			looks = looks[1:]
		case <-patience.C:
			waiting = false
		case <-ctx.Done():
			return
		}
	}
	w.mu.Lock()
	w.announced = true
	w.mu.Unlock()
	w.config.Log.Info("runtime is there")
	w.config.AvailableChanged(nil)
}

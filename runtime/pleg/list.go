package pleg

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/reader"
)

// list lists all pods once, and handles the result.
func (w *Watcher) list(ctx context.Context) {
	began := w.beginList()
	readCtx, cancel := context.WithTimeout(ctx, readTimeout)
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
	inspections, settled := w.listed(pods, began, busy)
	if settled {
		w.config.Log.V(1).Info("container events are relied on")
		w.config.Observer.Streaming(true)
	}
	w.resume(ctx, inspections)
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
	if !errors.Is(err, cri.ErrUnavailable) || w.gate == gateUnavailable {
		w.mu.Unlock()
		return
	}
	unavailable := &UnavailableError{Since: began, Err: err}
	w.unavailableErr, w.since, w.announced = unavailable, began, false
	w.mu.Unlock()
	w.config.Log.Error(err, "runtime is unavailable")
	if w.close(gateUnavailable, unavailable) {
		w.config.Observer.Streaming(false)
	}
	w.config.AvailableChanged(unavailable)
}

// listed compares a list with the known state, and returns the resulting inspections and whether
// events are reliable now.
func (w *Watcher) listed(pods []*reader.ListedPod, began time.Time, busy bool) (inspections []*inspection, settled bool) {
	uids := make([]types.UID, len(pods))
	for i, p := range pods {
		uids[i] = p.UID
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cache.SetListed(uids, began)
	inspections = append(w.compare(pods), w.compareMissing(uids, began)...)
	w.lists.succeed(began, w.nextInterval(busy))
	settled = w.stream.settle(began)
	if w.gate != gateOpen {
		w.reopen()
	}
	return inspections, settled
}

// compare returns the inspections for changed pods.
func (w *Watcher) compare(pods []*reader.ListedPod) (inspections []*inspection) {
	for _, listed := range pods {
		p := w.pod(listed.UID)
		if w.readAfter(p, listed.ObservedAt) {
			w.forget(p)
			continue // an inspection is newer than the list
		}
		first := p.listed == nil
		p.listed = &Pod{
			UID: p.uid, Name: listed.Name, Namespace: listed.Namespace, Source: listed.Source(),
			Running: listed.Running(), ObservedAt: listed.ObservedAt,
		}
		changed := listed.Changed(p.latest)
		switch {
		case p.next != nil, p.err != nil && w.gate != gateOpen:
			inspections = append(inspections, w.requestListed(p, listed))
		case p.err != nil, !changed && awaitsAddress(p.latest):
			// an inspection is scheduled already
		case changed:
			inspections = append(inspections, w.requestListed(p, listed))
		default:
			w.markUnchanged(p, listed.ObservedAt)
		}
		if first && !changed { // an event has reported the pod before, but Pods did not have it
			p.unreported = true
			w.wake(p)
		}
	}
	return inspections
}

// readAfter reports whether an inspection that began after a list has read the pod, or reads it
// now. If the runtime no longer has the pod, only the Cache has that information.
func (w *Watcher) readAfter(p *pod, list time.Time) bool {
	if p.newest().After(list) {
		return true
	}
	_, read, err := w.cache.Newer(p.uid, list.Add(1))
	return read && err == nil
}

// markUnchanged records that a read found a pod unchanged.
func (w *Watcher) markUnchanged(p *pod, observed time.Time) {
	status := *p.latest
	status.ObservedAt = observed
	if p.reported == p.latest {
		p.reported = &status
	}
	w.setLatest(p, &status)
	w.cache.Set(p.uid, p.latest, nil, observed)
}

// compareMissing returns the inspections for pods that are not in the list. They make no
// call: the runtime has no objects for these pods.
func (w *Watcher) compareMissing(uids []types.UID, began time.Time) (inspections []*inspection) {
	there := make(map[types.UID]bool, len(uids))
	for _, uid := range uids {
		there[uid] = true
	}
	for uid, p := range w.pods {
		if there[uid] || p.newest().After(began) || p.listed == nil && p.latest.Empty() && p.err == nil {
			continue
		}
		inspections = append(inspections, w.requestListed(p, &reader.ListedPod{UID: uid, ObservedAt: began}))
	}
	return inspections
}

// resume reports that the runtime is available, if that was not reported yet, once the
// inspections' results were reported or have taken too long.
func (w *Watcher) resume(ctx context.Context, inspections []*inspection) {
	w.mu.Lock()
	announce := !w.announced
	w.mu.Unlock()
	if !announce {
		return
	}
	patience := time.NewTimer(resumePatience)
	defer patience.Stop()
	for waiting := true; waiting && len(inspections) > 0; {
		select {
		case <-inspections[0].reported:
			inspections = inspections[1:]
		case <-patience.C:
			waiting = false
		case <-ctx.Done():
			return
		}
	}
	w.mu.Lock()
	w.announced = true
	w.mu.Unlock()
	w.config.Log.Info("runtime is available")
	w.config.AvailableChanged(nil)
}

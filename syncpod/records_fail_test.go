package syncpod_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
)

// watchedRecords are records that can fail, and that count their calls.
type watchedRecords struct {
	syncpod.FileRecords
	loadErr, saveErr error
	deleteErr        error
	hang             bool
	dead             atomic.Bool
	loads, saves     atomic.Int32
}

func (w *watchedRecords) LoadRecord(ctx context.Context, pod types.UID) ([]byte, error) {
	w.loads.Add(1)
	if w.hang {
		<-ctx.Done()
	}
	if err := errors.Join(w.loadErr, ctx.Err()); err != nil {
		return []byte(`{"version":1,"everStarted":["app"]}`), err
	}
	return w.FileRecords.LoadRecord(ctx, pod)
}

func (w *watchedRecords) SaveRecord(ctx context.Context, pod types.UID, text []byte) error {
	w.saves.Add(1)
	if err := errors.Join(w.saveErr, ctx.Err()); err != nil || w.dead.Load() {
		return err
	}
	return w.FileRecords.SaveRecord(ctx, pod, text)
}

func (w *watchedRecords) DeleteRecord(ctx context.Context, pod types.UID) error {
	if err := errors.Join(w.deleteErr, ctx.Err()); err != nil {
		return err
	}
	return w.FileRecords.DeleteRecord(ctx, pod)
}

func (w *watchedRecords) ListRecords(ctx context.Context) ([]types.UID, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func watching(w *watchedRecords, dir string) func(*syncpod.Config) {
	w.Dir = dir
	return func(c *syncpod.Config) { c.Parts.Records = w }
}

// E4: while a record cannot be loaded, it is not overwritten, and no caller waits
// for it for longer than a second. Failed saves are retried, and each record is loaded
// once.
func TestE4_RecordsThatFailAtFirst(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		w := &watchedRecords{loadErr: errNoDisk, saveErr: errNoDisk}
		n.restart(watching(w, dir))
		n.settle(testPod(), time.Minute)
		if w.loads.Load() < 2 || w.saves.Load() != 0 {
			t.Errorf("loaded %d times, saved %d times; want it loaded again, and not saved", w.loads.Load(), w.saves.Load())
		}
		w.loadErr, w.hang = nil, true
		began := time.Now()
		if n.sync(testPod()); time.Since(began) != time.Second {
			t.Errorf("a load that hangs took %v", time.Since(began))
		}
		w.hang = false
		n.sync(testPod())
		loaded := w.loads.Load()
		n.sync(testPod())
		if w.saves.Load() != 2 || w.loads.Load() != loaded {
			t.Errorf("saved %d times, want each time that it fails; loaded %d times more", w.saves.Load(), w.loads.Load()-loaded)
		}
		w.saveErr = nil
		for range 3 {
			n.sync(testPod())
		}
		if w.saves.Load() != 3 {
			t.Errorf("saved %d times, want once more", w.saves.Load())
		}
		if _, err := n.RecordedPods(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 3*time.Second {
			t.Errorf("a list that hangs: %v after %v", err, time.Since(began))
		}
	})
}

// K7: if an agent is killed while a container stops, the next agent knows that the handler has
// ended.
func TestK7_EndedHandlerIsRecordedAtOnce(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		w := &watchedRecords{}
		n.restart(watching(w, dir))
		pod := testPod(containers(preStop(ctr("app"), "sleep", "3")))
		n.settle(pod, time.Minute)
		n.stubborn("app")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, func() { w.dead.Store(true); cancel() })
		n.SyncTerminatingPod(ctx, syncpod.Termination{Pod: pod})
		n.restart(recorded(dir))
		n.end(pod, nil)
		if ran := n.Journal().Count(critest.ExecSync); ran != 1 {
			t.Errorf("the handler was run %d times, want once", ran)
		}
	})
}

// K7: it also knows the pod's deadline, even if no container has stopped yet.
func TestK7_DeadlineIsRecordedAtOnce(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		w := &watchedRecords{}
		n.restart(watching(w, dir))
		n.settle(testPod(), time.Minute)
		n.stubborn("app")
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, func() { w.dead.Store(true); cancel() })
		n.SyncTerminatingPod(ctx, syncpod.Termination{Pod: testPod()})
		n.restart(recorded(dir))
		n.end(testPod(), nil)
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("took %v, want 30s", took)
		}
	})
}

// W2: steps that a cancellation interrupts are still recorded.
func TestW2_RecordedThoughTheContextHasEnded(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		n.restart(watching(&watchedRecords{}, dir))
		n.settle(testPod(), time.Minute)
		n.stubborn("app")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		n.SyncTerminatingPod(ctx, syncpod.Termination{Pod: testPod(), Status: n.status()})
		if r, err := recordIn(t, dir, podUID); err != nil || r.Deadline.IsZero() {
			t.Errorf("record %+v, %v, want one with the deadline", r, err)
		}
		must(t, n.Forget(ctx, podUID))
	})
}

// W11: of a pod that is forgotten no part remembers anything.
func TestW11_ForgottenByAllParts(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		parts := &forgetful{}
		n.restart(func(c *syncpod.Config) {
			parts.Sandboxes, parts.images = c.Parts.Sandboxes, c.Parts.Images
			c.Parts.Sandboxes, c.Parts.Images = parts, forgetfulImages{c.Parts.Images, parts}
		})
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, Err: errBroken})
		n.SyncPod(t.Context(), testPod(), nil)
		must(t, n.Forget(t.Context(), podUID))
		if parts.sandboxes != 1 || parts.pulls != 1 {
			t.Errorf("sandboxes forgot %d times, images %d times", parts.sandboxes, parts.pulls)
		}
		if r := n.sync(testPod()); len(r.Failed) != 0 { // the back-off has ended
			t.Errorf("failed %v, want no Failed", r.Failed)
		}
	})
}

// forgetful are parts that record the calls of Forget.
type forgetful struct {
	syncpod.Sandboxes
	images           syncpod.Images
	sandboxes, pulls int
}

func (f *forgetful) Forget(pod types.UID) { f.sandboxes++; f.Sandboxes.Forget(pod) }

type forgetfulImages struct {
	syncpod.Images
	*forgetful
}

func (f forgetfulImages) Forget(pod types.UID) { f.pulls++; f.images.Forget(pod) }

// W10: a pod with the UID of a pod whose record could not be deleted is a new
// pod: it has not run yet, for this agent and for the next.
func TestW10_RecordThatCouldNotBeDeleted(t *testing.T) {
	pod := testPod(never)
	end := func(n *node) {
		n.end(pod, nil)
		n.Must(n.SyncTerminatedPod(n.Context(), pod, nil))
	}
	for name, goes := range map[string]func(*node){
		"ended": end,
		"ended and forgotten": func(n *node) {
			end(n)
			if err := n.Forget(n.Context(), podUID); !errors.Is(err, errNoDisk) {
				n.Errorf("forgotten: %v", err)
			}
		},
		"unknown": func(n *node) {
			n.Must(n.SyncTerminatingRuntimePod(n.Context(), syncpod.RuntimePod{UID: podUID, Status: n.status()}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			records := syncpod.FileRecords{Dir: t.TempDir()}
			bubble(t, func(t *testing.T, n *node) {
				w := &watchedRecords{deleteErr: errNoDisk}
				n.restart(watching(w, records.Dir))
				n.settle(pod, time.Minute)
				goes(n)
				must(t, n.Restart(faults.Restart{Sandboxes: faults.EffectRemoved, Containers: faults.EffectRemoved}))
				time.Sleep(time.Second)
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Err: errBroken})
				n.SyncPod(t.Context(), pod, nil)
				if r, err := recordIn(t, records.Dir, podUID); err != nil || len(r.EverStarted)+len(r.Started)+len(r.Exited) != 0 {
					t.Errorf("record %+v, %v, want one of a pod that has not run", r, err)
				}
				n.live(pod)
				n.wantStarts("app", 2)
			})
		})
	}
}

// W11: if a resource of a pod cannot be removed, the next agent finds the pod by its record and removes the resource. A
// new pod with the UID has not run yet.
func TestW11_NextAgentRemovesTheRest(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		made := &stuckCgroup{}
		next := func() {
			n.restart(recorded(dir), func(c *syncpod.Config) { c.Extensions.Cgroups = made })
		}
		next()
		n.settle(testPod(never), time.Minute)
		must(t, n.SyncTerminatingRuntimePod(t.Context(), syncpod.RuntimePod{UID: podUID, Status: n.status()}))
		next() // killed before the pod is forgotten
		made.removeErr = errBroken
		if err := n.Forget(t.Context(), podUID); !errors.Is(err, errBroken) {
			t.Errorf("forgotten: %v", err)
		}
		next()
		if r, err := recordIn(t, dir, podUID); err != nil || len(r.EverStarted)+len(r.Exited) != 0 {
			t.Errorf("record %+v, %v, want one of a pod that has not run", r, err)
		}
		made.removeErr = nil
		if all, err := n.RecordedPods(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("records of %v, %v, want the pod's", all, err)
		}
		must(t, n.Forget(t.Context(), podUID))
		if all, err := n.RecordedPods(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("records of %v, %v, want none", all, err)
		}
	})
}

// stuckCgroup is a cgroup that cannot be removed.
type stuckCgroup struct {
	cgroups
	removeErr error
}

func (c *stuckCgroup) RemovePod(context.Context, types.UID) error { return c.removeErr }

// A record that could be deleted after all is heeded when there is another.
func TestRecordAfterOneThatWasDeletedLate(t *testing.T) {
	records := syncpod.FileRecords{Dir: t.TempDir()}
	bubble(t, func(t *testing.T, n *node) {
		w := &watchedRecords{deleteErr: errNoDisk}
		n.restart(watching(w, records.Dir))
		n.settle(testPod(), time.Minute)
		n.end(testPod(), nil)
		must(t, n.SyncTerminatedPod(t.Context(), testPod(), nil))
		w.deleteErr = nil
		must(t, n.Forget(t.Context(), podUID))
		must(t, records.SaveRecord(t.Context(), podUID, []byte(`{"version":1,"nextAttempts":{"app":7}}`)))
		n.settle(testPod(), time.Minute)
		if a := n.current("app").Attempt; a != 7 {
			t.Errorf("attempt %d, want the one recorded", a)
		}
	})
}

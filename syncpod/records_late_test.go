package syncpod_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
)

// W3, K7: the record that an earlier agent has left of a pod's end is loaded only when the
// end has begun. Of all deadlines the earliest holds.
func TestW3_ALateRecordPutsNothingOff(t *testing.T) {
	for name, tc := range map[string]struct {
		recorded, asked, want time.Duration
	}{
		"asked for less":   {recorded: 100 * time.Second, asked: 10 * time.Second, want: 10 * time.Second},
		"recorded is less": {recorded: 10 * time.Second, asked: 20 * time.Second, want: 10 * time.Second},
		"none is recorded": {asked: 10 * time.Second, want: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bubble(t, func(t *testing.T, n *node) {
				n.settle(testPod(), time.Minute)
				n.stubborn("app")
				began := time.Now()
				if tc.recorded > 0 {
					must(t, syncpod.FileRecords{Dir: dir}.SaveRecord(t.Context(), podUID, []byte(fmt.Sprintf(`{"version":1,"deadline":%q}`, began.Add(tc.recorded).Format(time.RFC3339Nano)))))
				}
				w := &watchedRecords{loadErr: errNoDisk}
				n.restart(watching(w, dir))
				n.SyncTerminatingPod(giveUp(t, 3*time.Second), syncpod.Termination{Pod: testPod(), Deadline: began.Add(tc.asked)})
				w.loadErr = nil
				must(t, n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod()}))
				if took := time.Since(began); took != tc.want {
					t.Errorf("took %v, want %v\n%v", took, tc.want, n.Journal().Of(critest.StopContainer))
				}
			})
		})
	}
}

// K7: an end that was called off before its record could be loaded is called off all the
// same: the next one has its whole time, and the handler runs.
func TestK7_ALateRecordOfAnEndThatWasCalledOff(t *testing.T) {
	for name, late := range map[string]func(*node, *watchedRecords){
		"loaded at the end": func(_ *node, w *watchedRecords) { w.loadErr = nil },
		"loaded before": func(n *node, w *watchedRecords) {
			w.loadErr = nil
			n.sync(testPod(containers(preStop(ctr("app"), "sleep", "3"))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			withRecords(t, func(t *testing.T, n *node, dir string) {
				pod := testPod(containers(preStop(ctr("app"), "sleep", "3")))
				n.settle(pod, time.Minute)
				n.stubborn("app")
				n.SyncTerminatingPod(giveUp(t, 5*time.Second), syncpod.Termination{Pod: pod})
				w := &watchedRecords{loadErr: errNoDisk}
				n.restart(watching(w, dir))
				n.settle(pod, time.Minute)
				late(n, w)
				time.Sleep(time.Hour)
				hooks := n.Journal().Count(critest.ExecSync)
				if took := n.end(pod, nil); took != 30*time.Second {
					t.Errorf("took %v, want the 30s of its grace period\n%v", took, n.Journal())
				}
				if ran := n.Journal().Count(critest.ExecSync) - hooks; ran != 1 {
					t.Errorf("the handler was run %d times at its end, want once", ran)
				}
			})
		})
	}
}

// K7: a pod's deadline is known to the next agent, even if the previous one was killed
// during its first inspection, or got the stop request before it.
func TestK7_DeadlineIsRecordedBeforeTheLook(t *testing.T) {
	for name, begin := range map[string]func(*node, context.Context){
		"by the call": func(n *node, ctx context.Context) {
			n.SyncTerminatingPod(ctx, syncpod.Termination{Pod: testPod()})
		},
		"before": func(n *node, ctx context.Context) {
			n.SetDeadline(podUID, time.Now().Add(30*time.Second))(ctx)
			<-ctx.Done()
		},
		"before, with more than was given": func(n *node, ctx context.Context) {
			n.SetDeadline(podUID, time.Now().Add(30*time.Second))
			n.SetDeadline(podUID, time.Now().Add(40*time.Second))(ctx)
			<-ctx.Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bubble(t, func(t *testing.T, n *node) {
				w := &watchedRecords{}
				n.settle(testPod(), time.Minute)
				n.restart(watching(w, dir))
				n.stubborn("app")
				hang := n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListPodSandbox}, Times: faults.Always, Hang: &faults.Gate{}})
				began := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(10*time.Second, func() { w.dead.Store(true); cancel() })
				begin(n, ctx)
				hang.Remove()
				n.restart(recorded(dir))
				n.end(testPod(), nil)
				if took := time.Since(began); took != 30*time.Second {
					t.Errorf("took %v, want 30s", took)
				}
			})
		})
	}
}

// lateRecords answer a load only when the test allows it.
type lateRecords struct {
	syncpod.FileRecords
	answer chan struct{}
}

func (l lateRecords) LoadRecord(ctx context.Context, pod types.UID) ([]byte, error) {
	r, err := l.FileRecords.LoadRecord(context.WithoutCancel(ctx), pod)
	<-l.answer
	return r, err
}

// W11: a record that is loaded after its pod was forgotten is not written again.
func TestW11_ALateRecordIsNotWrittenAgain(t *testing.T) {
	records := lateRecords{syncpod.FileRecords{Dir: t.TempDir()}, make(chan struct{})}
	bubble(t, func(t *testing.T, n *node) {
		records.answer = make(chan struct{})
		n.restart(func(c *syncpod.Config) { c.Parts.Records = records })
		record, done := n.SetDeadline(podUID, time.Now().Add(time.Minute)), make(chan struct{})
		go func() {
			defer close(done)
			record(context.Background())
		}()
		synctest.Wait()
		must(t, n.Forget(t.Context(), podUID))
		close(records.answer)
		<-done
		if left, err := records.ListRecords(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("records of %v, %v, want none", left, err)
		}
	})
}

// A pod's stop begins while its deadline is recorded: one of the two reads the record,
// and the other one waits for that at most a second.
func TestRecordIsReadByOneAtATime(t *testing.T) {
	for name, tc := range map[string]struct {
		takes time.Duration
		reads int32
	}{
		"slow": {takes: 600 * time.Millisecond, reads: 1}, "it hangs": {takes: time.Hour, reads: 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				slow := &slowRecords{FileRecords: syncpod.FileRecords{Dir: t.TempDir()}, takes: tc.takes}
				n.settle(testPod(), time.Minute)
				n.restart(func(c *syncpod.Config) { c.Parts.Records = slow })
				began := time.Now()
				deadline := began.Add(30 * time.Second)
				go n.SetDeadline(podUID, deadline)(t.Context())
				synctest.Wait()
				must(t, n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod(), Deadline: deadline}))
				if took, most := time.Since(began), min(tc.takes, time.Second); took > most {
					t.Errorf("took %v, want %v", took, most)
				}
				if at := slow.most.Load(); at != 1 {
					t.Errorf("%d calls of LoadRecord at a time", at)
				}
				synctest.Wait()
				if reads := slow.reads.Load(); reads > tc.reads {
					t.Errorf("read %d times, want %d", reads, tc.reads)
				}
			})
		})
	}
}

// slowRecords take their time to be read.
type slowRecords struct {
	syncpod.FileRecords
	takes            time.Duration
	now, most, reads atomic.Int32
}

func (s *slowRecords) LoadRecord(ctx context.Context, pod types.UID) ([]byte, error) {
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	defer s.now.Add(-1)
	s.reads.Add(1)
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.FileRecords.LoadRecord(ctx, pod)
}

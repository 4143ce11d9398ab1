package podworkers

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// W1: a sync that is queued behind a kill is not done any more, in either order,
// and the calls for a pod only ever go forward.
func TestW1_NothingStartsAfterAKill(t *testing.T) {
	later := func(p *v1.Pod) []Update { return []Update{kill(p, 0, nil), {Type: Sync, Pod: p}} }
	for name, order := range map[string]func(*v1.Pod) []Update{
		"kill, then sync": later,
		"sync, then kill": func(p *v1.Pod) []Update { u := later(p); return []Update{u[1], u[0]} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				release := make(chan struct{})
				b.do = func(_ context.Context, w Work) (Result, error) {
					if w.Type == SyncPod {
						<-release // done before anyone notices that it is cancelled
					}
					return Result{}, nil
				}
				b.update(create(pod("a")))
				for _, u := range order(pod("a")) {
					b.update(u)
				}
				close(release)
				synctest.Wait()
				b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod)
				b.finished("a")
				if want := []string{"a syncing-terminating", "a terminating-terminated", "a terminated-finished"}; !slices.Equal(b.moves, want) {
					t.Errorf("moves %v, want %v", b.moves, want)
				}
			})
		})
	}
}

// W2: a request to stop cancels a sync that heeds it at once.
func TestW2_KillCancelsARunningSync(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		var cause error
		b.do = func(ctx context.Context, w Work) (Result, error) {
			if w.Type != SyncPod {
				return Result{}, nil
			}
			<-ctx.Done()
			cause = context.Cause(ctx)
			return Result{}, ctx.Err()
		}
		b.update(create(pod("a")))
		b.update(kill(pod("a"), 0, nil))
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod)
		if b.now() != 0 || !errors.Is(cause, ErrInterrupted) {
			t.Errorf("at %v, cause %v; want no time to pass, and ErrInterrupted", b.now(), cause)
		}
	})
}

// W2: a sync that does not heed its cancellation holds a stop up no longer than
// Config.AbandonAfter. Its outcome is dropped when it comes, but what it may have
// started since is stopped.
func TestW2_DeafSyncIsAbandoned(t *testing.T) {
	inBubble(t, Config{AbandonAfter: 700 * time.Millisecond}, func(b *bubble) {
		release := make(chan struct{})
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.Type == SyncPod {
				<-release
				return Result{Terminal: true}, nil
			}
			return Result{}, nil
		}
		b.update(create(pod("a")))
		b.update(kill(pod("a"), 0, nil))
		b.pass(699 * time.Millisecond)
		b.wants("a", SyncPod)
		b.pass(time.Millisecond)
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod)
		b.finished("a")
		close(release)
		synctest.Wait()
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod, SyncTerminatingRuntimePod)
		b.finished("a")
		b.Known(nil)
		b.empty()
	})
}

// Late work may have started something after the stop that is under way looked,
// or after the pod was forgotten.
func TestW2_LateReturnIsReconciled(t *testing.T) {
	for name, c := range map[string]struct {
		forget bool
		want   []WorkType
	}{
		"while it stops":  {false, []WorkType{SyncPod, SyncTerminatingPod, SyncTerminatingPod, SyncTerminatedPod}},
		"when it is gone": {true, []WorkType{SyncPod, SyncTerminatingPod, SyncTerminatedPod, SyncTerminatingRuntimePod}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				sync, stop := make(chan struct{}), make(chan struct{})
				b.do = func(_ context.Context, w Work) (Result, error) {
					switch w.Type {
					case SyncPod:
						<-sync
					case SyncTerminatingPod:
						<-stop
					}
					return Result{}, nil
				}
				b.update(create(pod("a")))
				b.update(kill(pod("a"), 0, nil))
				b.pass(DefaultAbandonAfter)
				if c.forget {
					close(stop)
					synctest.Wait()
					b.Known(nil)
					b.empty()
				}
				close(sync)
				synctest.Wait()
				if !c.forget {
					close(stop)
					synctest.Wait()
				}
				b.wants("a", c.want...)
				b.Known(nil)
				b.empty()
			})
		})
	}
}

// W3: a shortened grace period acts at once on a stop that is under way, also if
// that does not heed its cancellation.
func TestW3_ShorterGraceActsAtOnce(t *testing.T) {
	for name, deaf := range map[string]bool{"heeds its cancellation": false, "does not": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				b.do = func(ctx context.Context, w Work) (Result, error) {
					if w.Type != SyncTerminatingPod {
						return Result{}, nil
					}
					done := ctx.Done()
					if deaf {
						done = nil
					}
					select {
					case <-done:
						return Result{}, ctx.Err()
					case <-time.After(time.Until(w.Deadline)):
						return Result{}, nil
					}
				}
				b.update(create(pod("a")))
				b.update(killWithin(pod("a"), 120))
				b.pass(5 * time.Second)
				b.update(killWithin(pod("a"), 10))
				b.update(killWithin(pod("a"), 60))
				b.pass(10*time.Second - time.Millisecond)
				b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatingPod)
				b.pass(time.Millisecond)
				b.finished("a")
				again := b.calls("a")[2]
				if want := b.start.Add(15 * time.Second); !again.Deadline.Equal(want) || *again.GracePeriodSeconds != 10 {
					t.Errorf("stopped again with %d s until %v, want 10 s until %v", *again.GracePeriodSeconds, again.Deadline, want)
				}
				bound := time.Duration(0)
				if deaf {
					bound = DefaultAbandonAfter
				}
				if at := again.at.Sub(b.start); at != 5*time.Second+bound {
					t.Errorf("stopped again at %v, want %v after the request", at, bound)
				}
				b.pass(2 * time.Minute)
			})
		})
	}
}

// W5: a pod that only the runtime knows is stopped and gone.
func TestW5_RuntimePodIsStoppedAndGone(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.update(Update{Type: Kill, RuntimePod: &strayA})
		b.wants("a", SyncTerminatingRuntimePod)
		b.empty()
	})
}

// W6: what the runtime still runs of a pod that has finished is stopped.
func TestW6_StrayIsStoppedWhateverThePodsPhase(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.update(create(pod("a")))
		b.update(kill(pod("a"), 0, nil))
		b.Known([]types.UID{"a"})
		b.do = failures(SyncTerminatingRuntimePod, errBroken)
		if err := b.Stray(strayA); err != nil {
			t.Fatal(err)
		}
		b.pass(5 * time.Second)
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod, SyncTerminatingRuntimePod, SyncTerminatingRuntimePod)
		b.finished("a")
		if err := b.Stray(RuntimePod{Name: "a"}); err == nil || !strings.Contains(err.Error(), "UID") {
			t.Errorf("error %v, want one that names the UID", err)
		}
	})
}

// W10: a pod with the UID of one that stops runs after that has finished, and not
// before.
func TestW10_UIDReuseRunsAgain(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(ctx context.Context, w Work) (Result, error) {
			if w.Type == SyncTerminatingPod {
				time.Sleep(3 * time.Second)
			}
			return Result{}, nil
		}
		b.update(create(pod("a")))
		b.update(kill(pod("a"), 0, nil))
		b.update(create(pod("a")))
		b.Known([]types.UID{"a"})
		b.wants("a", SyncPod, SyncTerminatingPod)
		b.pass(3 * time.Second)
		b.finished("a")
		b.Known([]types.UID{"a"})
		b.update(create(pod("a")))
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod, SyncPod)
		if !b.MayHaveRunningContainers("a") || !slices.Equal(b.seen, []types.UID{"a", "a"}) {
			t.Errorf("seen %v, want the new pod to be seen as one", b.seen)
		}
	})
}

// W11: nothing is left of pods that have come and gone, whatever happened to
// them.
func TestW11_NothingIsLeftOfChurn(t *testing.T) {
	inBubble(t, Config{MaxConcurrent: 3}, func(b *bubble) {
		baseline := bubbled()
		var calls atomic.Int64
		b.do = func(ctx context.Context, w Work) (Result, error) {
			fate := calls.Add(1)
			switch {
			case w.Type == SyncPod && fate%3 == 0:
				<-ctx.Done()
				return Result{}, ctx.Err()
			case w.Type == SyncPod && fate%7 == 0:
				time.Sleep(10 * time.Second)
			case fate%5 == 0:
				return Result{}, errBroken
			}
			return Result{}, nil
		}
		for i := range 1000 {
			p := pod(types.UID(fmt.Sprint(i)))
			if i%4 == 0 {
				p = static(p.UID)
			}
			b.update(create(p))
			ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
			_ = b.KillPod(ctx, Update{Pod: p})
			cancel()
		}
		b.pass(5 * time.Minute)
		b.Known(nil)
		b.pass(5 * time.Minute)
		b.Known(nil)
		synctest.Wait()
		b.empty()
		if n := bubbled(); n != baseline {
			t.Errorf("%d goroutines, %d before", n, baseline)
		}
	})
}

// bubbled returns the number of goroutines in bubbles, and so leaves out those
// of the Go runtime.
func bubbled() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:goruntime.Stack(stacks, true)]), "synctest bubble")
}

// P1: a pod whose work hangs holds up no other, nor does one whose status cannot
// be had.
func TestP1_HungPodDelaysNobody(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(ctx context.Context, w Work) (Result, error) {
			if w.UID == "hung" {
				<-ctx.Done()
			}
			return Result{}, ctx.Err()
		}
		b.fresh = func(ctx context.Context, uid types.UID, _ time.Time) (*runtime.PodStatus, error) {
			if uid == "blind" {
				<-ctx.Done()
			}
			return &runtime.PodStatus{}, ctx.Err()
		}
		for _, uid := range []types.UID{"hung", "blind"} {
			if err := b.UpdatePod(create(pod(uid))); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 100 {
			if err := b.UpdatePod(create(pod(types.UID(fmt.Sprint(i))))); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for i := range 100 {
			b.wants(types.UID(fmt.Sprint(i)), SyncPod)
		}
		if b.now() != 0 {
			t.Errorf("it took %v, want no time", b.now())
		}
	})
}

// P5: waiting for a fresh status ends at once when the pod is to stop, and the
// work it was for is not begun.
func TestP5_WaitForStatusIsInterrupted(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.fresh = func(ctx context.Context, _ types.UID, since time.Time) (*runtime.PodStatus, error) {
			if b.TerminationRequested("a") {
				return &runtime.PodStatus{}, nil
			}
			<-ctx.Done()
			return &runtime.PodStatus{}, nil // an answer all the same
		}
		b.update(create(pod("a")))
		b.update(kill(pod("a"), 0, nil))
		b.wants("a", SyncTerminatingPod, SyncTerminatedPod)
		if b.now() != 0 {
			t.Errorf("it took %v, want no time", b.now())
		}
	})
}

// Each call has a status read after the end of the one before, that of abandoned
// work included.
func TestP4_StatusIsNewerThanTheLastWork(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		var since []time.Duration
		b.fresh = func(_ context.Context, _ types.UID, t time.Time) (*runtime.PodStatus, error) {
			if t.IsZero() {
				t = b.start.Add(-1)
			}
			since = append(since, t.Sub(b.start))
			return &runtime.PodStatus{}, nil
		}
		b.do = func(context.Context, Work) (Result, error) {
			time.Sleep(3 * time.Second)
			return Result{}, nil
		}
		b.update(create(pod("a")))
		b.pass(3 * time.Second)
		b.update(Update{Type: Changed, Pod: pod("a")})
		b.update(kill(pod("a"), 0, nil)) // the sync is abandoned at 4 s and ends at 6 s, so the pod is stopped twice
		b.pass(10 * time.Second)
		b.finished("a")
		want := []time.Duration{-1, 3 * time.Second, 4 * time.Second, 7 * time.Second, 10 * time.Second}
		if !slices.Equal(since, want) {
			t.Errorf("asked for a status since %v, want %v", since, want)
		}
	})
}

// P6: with a Syncer that takes no time, a whole life takes none.
func TestP6_WholeLifeTakesNoTime(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		if err := b.UpdatePod(create(pod("a"))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := b.KillPod(b.t.Context(), Update{Pod: pod("a")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod)
		b.finished("a")
		if b.now() != 0 {
			t.Errorf("it took %v, want no time", b.now())
		}
	})
}

// A pod that says it is over stops without anybody's asking.
func TestTerminalResultStopsThePod(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(_ context.Context, w Work) (Result, error) {
			return Result{Terminal: w.Type == SyncPod}, nil
		}
		b.update(create(pod("a")))
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod)
	})
}

// M1: static pods of one name run one after the other, with no time between.
func TestM1_StaticPodsTakeTurnsAtOnce(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.Type == SyncTerminatingPod {
				time.Sleep(time.Second)
			}
			return Result{}, nil
		}
		for i := range 6 {
			uid := types.UID(fmt.Sprint(i))
			b.update(create(static(uid)))
			if i < 5 {
				b.update(kill(static(uid), 0, nil))
			}
		}
		b.wants("5")
		b.pass(time.Second)
		b.wants("0", SyncPod, SyncTerminatingPod, SyncTerminatedPod)
		for _, uid := range []types.UID{"1", "2", "3", "4"} {
			b.wants(uid)
			b.finished(uid)
		}
		b.wants("5", SyncPod)
	})
}

// Of the updates that arrive while a pod is worked on, the last one counts.
func TestLatestUpdateWins(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		release := make(chan struct{})
		b.do = func(context.Context, Work) (Result, error) {
			<-release
			return Result{}, nil
		}
		b.update(create(pod("a")))
		for i := range 10 {
			p := pod("a")
			p.Generation = int64(i)
			b.update(Update{Type: Changed, Pod: p})
		}
		close(release)
		synctest.Wait()
		b.wants("a", SyncPod, SyncPod)
		if g := b.calls("a")[1].Pod.Generation; g != 9 {
			t.Errorf("synced generation %d, want 9", g)
		}
	})
}

func TestObserver(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(context.Context, Work) (Result, error) {
			time.Sleep(2 * time.Second)
			return Result{}, nil
		}
		b.update(create(pod("a")))
		b.pass(2 * time.Second)
		if !slices.Equal(b.ended, []time.Duration{2 * time.Second}) || !slices.Equal(b.seen, []types.UID{"a"}) {
			t.Errorf("ended %v, seen %v; want one pod seen and one sync of 2s", b.ended, b.seen)
		}
	})
}

// There is one line for each step, failure and abandoned work, and no other.
func TestLog(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	log := funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}, funcr.Options{})
	inBubble(t, Config{Log: log, RetryTransient: time.Nanosecond}, func(b *bubble) {
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.Type == SyncPod {
				time.Sleep(2 * DefaultAbandonAfter)
			}
			return Result{}, nil
		}
		b.update(create(pod("a")))
		b.update(kill(pod("a"), 0, nil))
		b.pass(2 * DefaultAbandonAfter)
		b.do = failures(SyncTerminatingPod, temporary{errBroken})
		b.update(kill(pod("b"), 0, nil))
		b.pass(time.Second)
	})
	for i, want := range []string{
		`"uid"="a" "from"="syncing" "to"="terminating"`,
		`"work was cancelled and does not return, going on without it" "uid"="a" "work"="SyncPod"`,
		`"uid"="a" "from"="terminating" "to"="terminated"`,
		`"uid"="a" "from"="terminated" "to"="finished"`,
		`"uid"="b" "from"="syncing" "to"="terminating"`,
		`"work failed" "error"="broken" "uid"="b" "work"="SyncTerminatingPod" "retryIn"="1ns"`,
		`"uid"="b" "from"="terminating" "to"="terminated"`,
		`"uid"="b" "from"="terminated" "to"="finished"`,
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Fatalf("line %d of %q, want %s in it", i, lines, want)
		}
	}
	if len(lines) != 8 {
		t.Errorf("%d lines, want 8: %q", len(lines), lines)
	}
}

func TestNewNamesTheField(t *testing.T) {
	s := &scripted{}
	for want, c := range map[string]Config{
		"Config.Syncer is required":            {},
		"Config.MaxConcurrent is -1":           {Syncer: s, MaxConcurrent: -1},
		"Config.AbandonAfter is -1s":           {Syncer: s, AbandonAfter: -time.Second},
		"Config.RetryInitial is -1s":           {Syncer: s, RetryInitial: -time.Second},
		"Config.RetryMax is 1s, shorter than ": {Syncer: s, RetryInitial: time.Minute, RetryMax: time.Second},
		"Config.RetryTransient is -1s":         {Syncer: s, RetryTransient: -time.Second},
		"Config.ResyncInterval is -1s":         {Syncer: s, ResyncInterval: -time.Second},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if _, err := New(Config{Syncer: s, RetryInitial: time.Hour}); err != nil {
		t.Errorf("a long RetryInitial alone: %v", err)
	}
}

func TestUnusableUpdateIsRefused(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		for _, u := range []Update{{}, {Pod: &v1.Pod{}}, {Type: Kill, RuntimePod: &RuntimePod{}}} {
			if err := b.UpdatePod(u); err == nil {
				t.Errorf("%+v was taken", u)
			}
			if err := b.KillPod(b.t.Context(), u); err == nil {
				t.Errorf("%+v was taken to be killed", u)
			}
		}
		b.empty()
	})
}

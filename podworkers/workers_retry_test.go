package podworkers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// retryAt is an error with the time of the next retry.
type retryAt struct {
	error
	at time.Time
}

func (e retryAt) RetryAt() time.Time { return e.at }

// temporary is an error whose cause soon disappears.
type temporary struct{ error }

func (temporary) Temporary() bool { return true }

// failures makes the work of one type fail with these errors, one after the
// other, and then succeed.
func failures(work WorkType, errs ...error) func(context.Context, Work) (Result, error) {
	return func(_ context.Context, w Work) (Result, error) {
		if w.Type != work || len(errs) == 0 {
			return Result{}, nil
		}
		err := errs[0]
		errs = errs[1:]
		return Result{}, err
	}
}

// waits returns the time between the calls for a pod.
func (b *bubble) waits(uid types.UID) []time.Duration {
	var waits []time.Duration
	calls := b.calls(uid)
	for i := range len(calls) - 1 {
		waits = append(waits, calls[i+1].at.Sub(calls[i].at))
	}
	return waits
}

// jittered reports whether a wait is base and up to half more.
func jittered(wait, base time.Duration) bool { return wait >= base && wait <= base+base/2 }

// SyncKnownPods does not shorten the back-off of a failed stop.
func TestKnownPodsDoNotHurryRetries(t *testing.T) {
	inBubble(t, Config{RetryInitial: 10 * time.Second}, func(b *bubble) {
		b.do = failures(SyncTerminatingPod, errors.New("no"), errors.New("no"))
		b.update(create(pod("a")))
		b.update(killWithin(pod("a"), 1))
		began := len(b.calls("a"))
		for range 50 {
			b.SyncKnownPods(nil)
			b.pass(100 * time.Millisecond)
		}
		if n := len(b.calls("a")) - began; n > 1 { // the pod's second is over once
			t.Errorf("%d calls in the 5 s after a failed stop, want one at most", n)
		}
		b.pass(time.Minute)
		b.finished("a")
	})
}

// W4: a pod that must stop finishes without further updates, even if its work fails. So does a pod that is no longer desired.
func TestW4_FailedWorkIsRetriedByItself(t *testing.T) {
	for _, failing := range []WorkType{SyncTerminatingPod, SyncTerminatedPod} {
		t.Run(failing.String(), func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				b.do = failures(failing, errBroken, errBroken, errBroken)
				b.update(create(pod("a")))
				b.SyncKnownPods(nil)
				b.pass(time.Minute)
				b.finished("a")
			})
		})
	}
	t.Run("runtime pod", func(t *testing.T) {
		inBubble(t, Config{}, func(b *bubble) {
			b.do = failures(SyncTerminatingRuntimePod, errBroken)
			b.update(Update{Type: Kill, RuntimePod: &strayA})
			b.pass(time.Minute)
			b.wants("a", SyncTerminatingRuntimePod, SyncTerminatingRuntimePod, RemovePod)
			b.empty()
		})
	})
	t.Run("fresh status", func(t *testing.T) {
		inBubble(t, Config{}, func(b *bubble) {
			looks := 0
			b.fresh = func(context.Context, types.UID, time.Time) (*runtime.PodStatus, error) {
				if looks++; looks < 3 {
					return nil, errBroken
				}
				return &runtime.PodStatus{}, nil
			}
			b.update(kill(pod("a"), 0, nil))
			b.pass(time.Minute)
			b.wants("a", SyncTerminatingPod, SyncTerminatedPod)
		})
	})
}

// W4: a failed stop is retried at the pod's deadline, if that is before the next retry. Failures before the deadline do
// not count for the back-off afterwards.
func TestW4_FailedStopIsRetriedAfterItsDeadline(t *testing.T) {
	inBubble(t, Config{RetryInitial: 2 * time.Second, RetryMax: time.Hour}, func(b *bubble) {
		b.do = failures(SyncTerminatingPod, errBroken, errBroken, errBroken, errBroken)
		b.update(create(pod("a")))
		b.update(killWithin(pod("a"), 5))
		b.pass(time.Minute)
		waits := b.waits("a")[1:]
		if first := waits[0]; !jittered(first, 2*time.Second) || first+waits[1] != 5*time.Second {
			t.Errorf("the retries before the time is over: %v, %v", first, waits[1])
		}
		if !jittered(waits[2], 2*time.Second) || !jittered(waits[3], 4*time.Second) {
			t.Errorf("the retries after it: %v, %v", waits[2], waits[3])
		}
		b.finished("a")
	})
}

// W4: the pause after an unknown failure grows up to a limit, and starts again after a success.
func TestW4_BackoffGrowsToItsCap(t *testing.T) {
	inBubble(t, Config{RetryInitial: time.Second, RetryMax: 7 * time.Second, ResyncInterval: time.Hour}, func(b *bubble) {
		b.do = failures(SyncPod, errBroken, errBroken, errBroken, errBroken, errBroken, nil, errBroken)
		b.update(create(pod("a")))
		b.pass(time.Minute)
		b.update(Update{Type: Sync, Pod: pod("a")})
		b.pass(2 * time.Second)
		waits := b.waits("a")
		for i, base := range []time.Duration{1, 2, 4, 7, 7, 0, 1} {
			if base *= time.Second; base != 0 && !jittered(waits[i], base) {
				t.Errorf("wait %d is %v, want %v and up to half more", i, waits[i], base)
			}
		}
	})
}

// W4: work is retried exactly at the time in its error, and soon after a temporary error, even if that error is wrapped.
func TestW4_ErrorsSetTheTimeOfTheRetry(t *testing.T) {
	for name, c := range map[string]struct {
		err      func(now time.Time) error
		min, max time.Duration
	}{
		"a time": {
			func(now time.Time) error { return retryAt{errBroken, now.Add(17 * time.Second)} },
			17 * time.Second, 17 * time.Second,
		},
		"wrapped and joined": {
			func(now time.Time) error {
				return errors.Join(errBroken, fmt.Errorf("start: %w", retryAt{errBroken, now.Add(17 * time.Second)}))
			},
			17 * time.Second, 17 * time.Second,
		},
		"a time that has passed": {
			func(now time.Time) error { return retryAt{errBroken, now.Add(-time.Second)} },
			defaultRetryTransient, defaultRetryTransient * 3 / 2,
		},
		"no time": {
			func(now time.Time) error { return retryAt{errBroken, time.Time{}} },
			defaultRetryInitial, defaultRetryInitial * 3 / 2,
		},
		"temporary": {
			func(time.Time) error { return fmt.Errorf("run: %w", temporary{errBroken}) },
			defaultRetryTransient, defaultRetryTransient * 3 / 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				b.do = failures(SyncPod, c.err(b.start))
				b.update(create(pod("a")))
				b.pass(30 * time.Second)
				if wait := b.waits("a")[0]; wait < c.min || wait > c.max {
					t.Errorf("tried again after %v, want %v to %v", wait, c.min, c.max)
				}
			})
		})
	}
}

// An update does not wait for a pending retry, and replaces it.
func TestUpdateReplacesARetry(t *testing.T) {
	inBubble(t, Config{ResyncInterval: time.Hour}, func(b *bubble) {
		b.do = failures(SyncPod, errBroken)
		b.update(create(pod("a")))
		b.pass(time.Second)
		b.update(Update{Type: Changed, Pod: pod("a")})
		b.pass(time.Minute)
		if waits := b.waits("a"); !slices.Equal(waits, []time.Duration{time.Second}) {
			t.Errorf("waits %v, want one of 1s", waits)
		}
	})
}

func TestResync(t *testing.T) {
	inBubble(t, Config{ResyncInterval: time.Minute}, func(b *bubble) {
		b.update(create(pod("a")))
		b.pass(3*time.Minute + time.Second)
		waits := b.waits("a")
		if len(waits) < 2 || slices.ContainsFunc(waits, func(d time.Duration) bool { return !jittered(d, time.Minute) }) {
			t.Errorf("waits %v, want some of a minute and up to half more", waits)
		}
		b.update(kill(pod("a"), 0, nil))
		n := len(b.calls("a"))
		b.pass(time.Hour)
		if more := len(b.calls("a")) - n; more != 0 {
			t.Errorf("%d calls for a finished pod", more)
		}
	})
}

// A result can request the next sync at an exact time.
func TestResultNamesTheNextLook(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(_ context.Context, w Work) (Result, error) {
			if time.Since(b.start) > 0 {
				return Result{}, nil
			}
			next := Result{Next: b.start.Add(7 * time.Second)}
			if w.UID == "failing" {
				return next, retryAt{errBroken, b.start.Add(17 * time.Second)}
			}
			return next, nil
		}
		for _, uid := range []types.UID{"a", "failing"} {
			b.update(create(pod(uid)))
		}
		b.pass(30 * time.Second)
		for _, uid := range []types.UID{"a", "failing"} {
			if waits := b.waits(uid); !slices.Equal(waits, []time.Duration{7 * time.Second}) {
				t.Errorf("%s waits %v, want once 7s", uid, waits)
			}
		}
	})
}

// Each wait has a random part, unless an error or a result specifies its end.
func TestWaitsAreSpread(t *testing.T) {
	c, err := Config{Syncer: &scripted{}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for name, wait := range map[string]func(waiter) time.Duration{
		"first failure":      func(w waiter) time.Duration { return w.retryIn(SyncPod, errBroken, 1, time.Time{}) },
		"hundredth failure":  func(w waiter) time.Duration { return w.retryIn(SyncPod, errBroken, 100, time.Time{}) },
		"temporary failure":  func(w waiter) time.Duration { return w.retryIn(SyncPod, temporary{errBroken}, 1, time.Time{}) },
		"time that is over":  func(w waiter) time.Duration { return w.retryIn(SyncPod, retryAt{errBroken, now}, 1, time.Time{}) },
		"nothing went wrong": func(w waiter) time.Duration { return w.resyncIn(time.Time{}) },
		"named for later":    func(w waiter) time.Duration { return w.resyncIn(now.Add(time.Hour)) },
		"failed, and later":  func(w waiter) time.Duration { return w.retryIn(SyncPod, errBroken, 1, now.Add(time.Hour)) },
	} {
		waits := map[time.Duration]bool{}
		for i := range 20 {
			waits[wait(waiter{&c, types.UID(fmt.Sprint(i)), now})] = true
		}
		if longest := slices.Max(slices.Collect(maps.Keys(waits))); len(waits) < 10 || longest > 2*time.Minute {
			t.Errorf("%s: %d different waits of 20, up to %v", name, len(waits), longest)
		}
	}
}

// Pods that failed at the same time are not retried at the same time.
func TestRetriesAreSpread(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		const pods = 20
		b.do = func(context.Context, Work) (Result, error) { return Result{}, errBroken }
		at := map[time.Duration]bool{}
		for i := range pods {
			b.update(create(pod(types.UID(fmt.Sprint(i)))))
		}
		b.pass(defaultRetryInitial * 3 / 2)
		for i := range pods {
			calls := b.calls(types.UID(fmt.Sprint(i)))
			if len(calls) != 2 {
				t.Fatalf("%d calls within %v, want 2", len(calls), defaultRetryInitial*3/2)
			}
			at[calls[1].at.Sub(b.start)] = true
		}
		if len(at) < pods/2 {
			t.Errorf("%d pods came back at %d times", pods, len(at))
		}
	})
}

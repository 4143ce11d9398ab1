package backoff_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/backoff"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newBackoff(t *testing.T, c backoff.Config[string]) *backoff.Backoff[string] {
	t.Helper()
	b := must.Get(backoff.New(c))(t)
	return b
}

// waits fails a key n times, each time as soon as it may be tried, and returns
// the waits between.
func waits(b *backoff.Backoff[string], key string, n int) []time.Duration {
	now := start
	var got []time.Duration
	for range n {
		until := b.Advance(key, now, time.Time{})
		got = append(got, until.Sub(now))
		now = until
	}
	return got
}

func seconds(ds ...int) []time.Duration {
	out := make([]time.Duration, len(ds))
	for i, d := range ds {
		out[i] = time.Duration(d) * time.Second
	}
	return out
}

func TestSequence(t *testing.T) {
	for name, c := range map[string]struct {
		config backoff.Config[string]
		want   []time.Duration
	}{
		"the kubelet's (B1)":    {backoff.Config[string]{}, seconds(0, 10, 20, 40, 80, 160, 300, 300)},
		"first failure waits":   {backoff.Config[string]{WaitFirst: true}, seconds(10, 20, 40, 80, 160, 300, 300)},
		"own initial and max":   {backoff.Config[string]{Initial: time.Second, Max: 3 * time.Second}, seconds(0, 1, 2, 3, 3)},
		"max below the default": {backoff.Config[string]{Max: 3 * time.Second}, seconds(0, 3, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			got := waits(newBackoff(t, c.config), "k", len(c.want))
			for i := range c.want {
				if got[i] != c.want[i] {
					t.Fatalf("waits %v, want %v", got, c.want)
				}
			}
		})
	}
}

func TestZeroBackoffIsUsable(t *testing.T) {
	var b backoff.Backoff[string]
	if got := waits(&b, "k", 3); got[2] != 20*time.Second {
		t.Errorf("waits %v, want the kubelet's", got)
	}
}

func TestNewNamesTheField(t *testing.T) {
	for field, c := range map[string]backoff.Config[string]{
		"Initial":                                {Initial: -1},
		"Config.Max is -1ns, want":               {Max: -1},
		"Config.Max is 1s, shorter than Initial": {Initial: 2 * time.Second, Max: time.Second},
	} {
		if _, err := backoff.New(c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("New(%+v): error %v, want one naming %s", c, err, field)
		}
	}
}

func TestCheckReturnsTheEndAndChangesNothing(t *testing.T) {
	b := newBackoff(t, backoff.Config[string]{})
	if _, wait := b.Check("k", start); wait {
		t.Error("an unknown key waits")
	}
	b.Advance("k", start, time.Time{})
	if _, wait := b.Check("k", start); wait {
		t.Error("the first retry waits")
	}
	b.Advance("k", start, time.Time{})
	for range 3 {
		until, wait := b.Check("k", start.Add(4*time.Second))
		if want := start.Add(10 * time.Second); !wait || !until.Equal(want) {
			t.Fatalf("Check = %v, %v; want %v, true", until, wait, want)
		}
	}
	if until, wait := b.Check("k", start.Add(10*time.Second)); wait || !until.IsZero() {
		t.Errorf("at the end of the wait: Check = %v, %v; want no wait", until, wait)
	}
	if _, wait := b.Check("other", start); wait {
		t.Error("another key waits")
	}
}

func TestTheSameFailureCountsOnce(t *testing.T) {
	b := newBackoff(t, backoff.Config[string]{})
	b.Advance("k", start, start.Add(-time.Minute))
	first := b.Advance("k", start, start)
	again := b.Advance("k", start.Add(3*time.Second), start)
	over := b.Advance("k", start.Add(time.Minute), start)
	if !again.Equal(first) || !over.Equal(start.Add(time.Minute)) || b.Failures("k") != 2 {
		t.Errorf("one failure that is reported three times: %v, %v and %v, %d failures", first, again, over, b.Failures("k"))
	}
}

func TestWaitCountsFromTheFailure(t *testing.T) {
	b := newBackoff(t, backoff.Config[string]{WaitFirst: true})
	if got, want := b.Advance("k", start, start.Add(-4*time.Second)), start.Add(6*time.Second); !got.Equal(want) {
		t.Errorf("a failure of 4 s ago waits until %v, want %v", got, want)
	}
	if got := b.Advance("l", start, start.Add(-time.Hour)); !got.Equal(start) {
		t.Errorf("a failure of an hour ago waits until %v, want %v", got, start)
	}
}

func TestForgottenAfterTwiceTheMaximum(t *testing.T) {
	for _, c := range []struct {
		quiet time.Duration
		want  time.Duration
	}{{10 * time.Minute, 20 * time.Second}, {10*time.Minute + time.Second, 0}} {
		b := newBackoff(t, backoff.Config[string]{})
		b.Advance("k", start, time.Time{})
		end := b.Advance("k", start, time.Time{})
		now := end.Add(c.quiet)
		if got := b.Advance("k", now, time.Time{}).Sub(now); got != c.want {
			t.Errorf("after %v without failure the wait is %v, want %v", c.quiet, got, c.want)
		}
	}
}

func TestForgetAndCollect(t *testing.T) {
	b := newBackoff(t, backoff.Config[string]{})
	b.Advance("old", start, time.Time{})
	b.Advance("gone", start, time.Time{})
	b.Advance("new", start.Add(9*time.Minute), time.Time{})
	b.Forget("gone")
	if left := b.Collect(start.Add(10*time.Minute + time.Second)); left != 1 || b.Failures("new") != 1 {
		t.Errorf("%d keys left after collecting, want only the new one", left)
	}
	if left := b.Collect(start.Add(time.Hour)); left != 0 {
		t.Errorf("%d keys left at the end", left)
	}
}

// B4: whatever the clocks do, a wait is never longer than the key's delay, and a step of the wall clock moves the next
// try by at most one delay.
func TestB4_ClockSteps(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, -5 * time.Second, 5 * time.Second, time.Hour} {
		b := newBackoff(t, backoff.Config[string]{WaitFirst: true})
		b.Advance("k", start, start)

		tried := time.Duration(-1)
		for elapsed := time.Second; elapsed <= time.Minute; elapsed += time.Second {
			if _, wait := b.Check("k", start.Add(elapsed+step)); !wait {
				tried = elapsed
				break
			}
		}
		if tried < 0 || tried > 20*time.Second {
			t.Errorf("clock stepped by %v: tried again after %v, want within the delay of 10 s of the 10 s it should be", step, tried)
		}
	}
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		b := newBackoff(t, backoff.Config[string]{WaitFirst: true})
		if until := b.Advance("k", start, start.Add(skew)); until.Sub(start) > 10*time.Second {
			t.Errorf("failure reported %v off: waits %v, longer than its delay", skew, until.Sub(start))
		}
	}
}

func TestWaitNeverExceedsTheMaximum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := newBackoff(t, backoff.Config[string]{})
	now := start
	for range 10_000 {
		key := string(rune('a' + r.IntN(3)))
		now = now.Add(time.Duration(r.IntN(200)-20) * time.Second)
		if r.IntN(2) == 0 {
			b.Advance(key, now, now.Add(time.Duration(r.IntN(4000)-2000)*time.Second))
		}
		if until, wait := b.Check(key, now); wait && (until.Sub(now) > backoff.DefaultMax || !until.After(now)) {
			t.Fatalf("at %v key %s waits until %v", now, key, until)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	k, _ := backoff.New(backoff.Config[string]{})
	k.Advance("key", start, time.Time{})
	b.ReportAllocs()
	for b.Loop() {
		k.Check("key", start)
	}
}

func TestKnownFailureAfterTheClockWasSetBack(t *testing.T) {
	b := newBackoff(t, backoff.Config[string]{WaitFirst: true})
	b.Advance("k", start, start)
	back := start.Add(-time.Hour)
	if until := b.Advance("k", back, start); until.Sub(back) > 10*time.Second {
		t.Errorf("waits %v, want at most %v", until.Sub(back), 10*time.Second)
	}
}

func TestFailureReportedLateEndsNoWait(t *testing.T) {
	b := newBackoff(t, backoff.Config[string]{})
	b.Advance("k", start, start.Add(-time.Second))
	want := b.Advance("k", start, start)
	if until := b.Advance("k", start, start.Add(-time.Hour)); until.Before(want) {
		t.Errorf("waits until %v, and waited until %v before", until, want)
	}
	if _, wait := b.Check("k", start.Add(time.Second)); !wait {
		t.Error("the wait has ended")
	}
}

func TestLongestMaximum(t *testing.T) {
	b := newBackoff(t, backoff.Config[string]{Initial: time.Second, Max: 1<<63 - 1})
	got := waits(b, "k", 5)
	if want := seconds(0, 1, 2, 4, 8); !slices.Equal(got, want) {
		t.Errorf("waits %v, want %v", got, want)
	}
	if got := waits(newBackoff(t, backoff.Config[string]{}), "k", 100); got[99] != backoff.DefaultMax {
		t.Errorf("waits %v after 100 failures, want %v", got[99], backoff.DefaultMax)
	}
}

func TestTheSameFailureInAnotherZone(t *testing.T) {
	b := newBackoff(t, backoff.Config[string]{})
	b.Advance("k", start, start)
	b.Advance("k", start, start.In(time.FixedZone("elsewhere", 3600)))
	if got := b.Failures("k"); got != 1 {
		t.Errorf("%d failures, want 1", got)
	}
	for range 20 {
		b.Advance("k", start, time.Time{})
	}
	if got := b.Failures("k"); got != 21 {
		t.Errorf("%d failures, want 21", got)
	}
}

// Preview returns the result that Check has after Advance, whatever happened before, and changes nothing.
func TestPreview(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	b := newBackoff(t, backoff.Config[string]{})
	now := start
	for range 2000 {
		now = now.Add(time.Duration(random.IntN(400)-20) * time.Second)
		at := now.Add(-time.Duration(random.IntN(100)-10) * time.Second)
		if random.IntN(4) == 0 {
			at = time.Time{}
		}
		until, wait := b.Preview("a", now, at)
		if again, waits := b.Preview("a", now, at); !again.Equal(until) || waits != wait {
			t.Fatal("Preview changes something")
		}
		b.Advance("a", now, at)
		if want, waits := b.Check("a", now); !until.Equal(want) || wait != waits {
			t.Fatalf("Preview says %v, %v, and Check then %v, %v", until, wait, want, waits)
		}
	}
}

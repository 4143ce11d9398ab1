package jitter

import (
	"fmt"
	"testing"
	"time"
)

func TestUpTo(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	thirds := map[time.Duration]int{}
	for i := range 300 {
		who := fmt.Sprint("uid-", i)
		d := UpTo(2*time.Second, who, now)
		if d < 0 || d > 2*time.Second {
			t.Fatalf("%v, want at least 0 and at most %v", d, 2*time.Second)
		}
		thirds[min(d*3/(2*time.Second), 2)]++
		if again := UpTo(2*time.Second, who, now); again != d {
			t.Errorf("%v, and then %v", d, again)
		}
		if later := UpTo(2*time.Second, who, now.Add(1)); later == d {
			t.Errorf("%v a nanosecond later, too", d)
		}
	}
	for third, n := range thirds {
		if n < 60 || n > 140 {
			t.Errorf("%d of 300 in third %d", n, third)
		}
	}
	for _, limit := range []time.Duration{0, -time.Second} {
		if d := UpTo(limit, "a", now); d != 0 {
			t.Errorf("%v up to %v, want 0", d, limit)
		}
	}
	if d := UpTo(1<<63-1, "a", now); d < 0 {
		t.Errorf("%v, want at least 0", d)
	}
}

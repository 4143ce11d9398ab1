package server

import (
	"fmt"
	"testing"
	"time"
)

func TestLinesAreBounded(t *testing.T) {
	var l lines
	now := time.Unix(1000, 0)
	want := func(key lineKey, leftOut int, write bool) {
		t.Helper()
		if gotOut, got := l.next(key, now); gotOut != leftOut || got != write {
			t.Errorf("%v: %d left out, %t, want %d, %t", key, gotOut, got, leftOut, write)
		}
	}
	ann, bob := lineKey{"ann", "refused"}, lineKey{"bob", "refused"}
	want(ann, 0, true)
	want(ann, 0, false)
	want(ann, 0, false)
	want(bob, 0, true)
	now = now.Add(lineInterval)
	want(ann, 2, true)
	want(ann, 0, false)
	for i := range 10 * maxLineKeys {
		l.next(lineKey{fmt.Sprint(i), "refused"}, now)
	}
	if len(l.noted) > maxLineKeys+1 {
		t.Errorf("%d keys are kept, want at most %d", len(l.noted), maxLineKeys+1)
	}
	want(lineKey{"carol", "refused"}, 0, false)
	now = now.Add(lineInterval)
	want(ann, 1, true)
	want(lineKey{"carol", "refused"}, 0, true)
	if len(l.noted) > 2 {
		t.Errorf("%d keys are kept after the interval, want 2", len(l.noted))
	}
}

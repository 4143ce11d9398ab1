package pleg

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Before the first list, the time since which the runtime is unavailable is unknown.
func TestP7_HealthBeforeTheFirstLook(t *testing.T) {
	h := Health{At: time.Now(), Err: errors.New("not listed yet")}
	if s := h.String(); strings.Contains(s, " for ") || !strings.Contains(s, "not listed yet") {
		t.Errorf("%q, want no %q in it and %q in it", s, " for ", "not listed yet")
	}
	h.Since = h.At.Add(-3 * time.Second)
	if s := h.String(); !strings.Contains(s, "not available for 3s: not listed yet") {
		t.Errorf("%q, want %q in it", s, "not available for 3s: not listed yet")
	}
}

// The lines begin with problems of the whole runtime and end with problems of single pods.
func TestHealthListsAllInOrder(t *testing.T) {
	now := time.Now()
	h := Health{
		At: now, Listing: now.Add(-6 * time.Second), ListErr: errors.New("refused"), ListFailing: now.Add(-time.Minute), StreamErr: errors.New("cut"),
		Pods: []ReadFailure{{UID: "a", Err: errors.New("broken"), Since: now.Add(-time.Second)}, {UID: "b", InspectingSince: now.Add(-7 * time.Second)}},
	}
	want := "list: in progress for 6s\nlist: fails for 1m0s: refused\nevents: not heard: cut\npod a: cannot be read for 1s: broken\npod b: being read for 7s"
	if got := h.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestHealthListsEachFaultOnce(t *testing.T) {
	at, fire := time.Unix(100, 0), errors.New("fire")
	ago := func(d time.Duration) time.Time { return at.Add(-d) }
	for _, tt := range []struct {
		health Health
		ok     bool
		want   string
	}{
		{Health{Listing: ago(LongInspection - 1)}, true, "ok"},
		{Health{Listing: ago(LongInspection)}, false, "list: in progress for 5s"},
		{Health{Err: fire, Since: ago(time.Second), ListErr: fire, StreamErr: fire}, false, "runtime: not available for 1s: fire"},
		{Health{Err: fire, Since: ago(time.Second)}, false, "runtime: not available for 1s: fire"},
		{Health{ListErr: fire, ListFailing: ago(time.Second)}, false, "list: fails for 1s: fire"},
		{Health{StreamErr: fire}, true, "events: not heard: fire"},
		{Health{Pods: []ReadFailure{{UID: "u", Err: fire, Since: ago(time.Second)}, {UID: "v", InspectingSince: ago(time.Minute)}}}, false,
			"pod u: cannot be read for 1s: fire\npod v: being read for 1m0s"},
	} {
		tt.health.At = at
		if got := tt.health.String(); got != tt.want || tt.health.OK() != tt.ok {
			t.Errorf("%q, OK %v, want %q", got, tt.health.OK(), tt.want)
		}
	}
}

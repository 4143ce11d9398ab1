package pleg

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Before the first look nobody knows since when the runtime is away.
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

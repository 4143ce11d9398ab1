package env_test

import (
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container/env"
)

func TestBudget(t *testing.T) {
	var b env.Budget
	if err := b.Add(env.MaxString + 1); err == nil || !strings.Contains(err.Error(), "more than 131071 bytes") {
		t.Errorf("a string that is too long: %v", err)
	}
	for range 15 {
		must.Do(t, b.Add(env.MaxString))
	}
	left := b.Left() // less than MaxString by the overhead of 16 strings
	if want := 2<<20 - 15*(131071+9) - 9; left != want {
		t.Errorf("%d bytes are left, want %d", left, want)
	}
	if err := b.Add(left + 1); err == nil || !strings.Contains(err.Error(), "more than 2097152 bytes") {
		t.Errorf("more than is left: %v", err)
	}
	if err := b.Add(left); err != nil || b.Left() >= 0 {
		t.Errorf("%v, and %d are left", err, b.Left())
	}
	b.Remove(left)
	if b.Left() != left {
		t.Errorf("%d are left, want %d", b.Left(), left)
	}
}

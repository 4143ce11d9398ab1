package image

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	goruntime "runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// The recorded uses are limited, and two images keep their order of last use.
func TestUsesAreBounded(t *testing.T) {
	l, began := &Leases{}, time.Now()
	l.noteUse(began.Add(time.Hour), "stays")
	for i := range 3 * maxUses {
		l.noteUse(began.Add(time.Duration(i)), fmt.Sprint(i))
	}
	first, last := l.lastUse([]string{"0"}), l.lastUse([]string{fmt.Sprint(3*maxUses - 1)})
	if len(l.used) > maxUses || !first.IsZero() || last.IsZero() || !l.lastUse([]string{"stays", "0"}).Equal(began.Add(time.Hour)) {
		t.Errorf("%d are remembered, the first %v, the last %v", len(l.used), first, last)
	}
	for i := range 3 * maxUses {
		l.noteUse(began, fmt.Sprint("at once ", i))
	}
	if len(l.used) > maxUses {
		t.Errorf("%d are remembered", len(l.used))
	}
}

func TestUsesOfRemovedImagesAreForgotten(t *testing.T) {
	l, then := &Leases{}, time.Now()
	l.noteUse(then.Add(-1), "there", "gone")
	l.noteUse(then, "since")
	l.forgetUses(map[string]bool{"there": true}, then)
	if len(l.used) != 2 || l.lastUse([]string{"gone"}) != (time.Time{}) {
		t.Errorf("left is %v, want two images, and no use of gone", l.used)
	}
}

// A leased image counts as in use until the lease ends.
func TestALeaseIsAUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Leases{}
		lease := must.Get(l.Acquire(t.Context(), "app:v1"))(t)
		time.Sleep(time.Hour)
		lease.Release()
		released := time.Now()
		time.Sleep(time.Hour)
		lease.Release()
		if got := l.lastUse([]string{"docker.io/library/app:v1"}); got != released {
			t.Errorf("last use %v, want %v", got, released)
		}
	})
}

func TestCompleted(t *testing.T) {
	hex := fmt.Sprintf("%064x", "a")
	for name, want := range map[string]string{
		"app":               "docker.io/library/app:latest",
		"r.io/app:v1":       "r.io/app:v1",
		"sha256:" + hex:     "sha256:" + hex,
		hex:                 "sha256:" + hex,
		"app@sha256:" + hex: "docker.io/library/app@sha256:" + hex,
		"":                  "",
	} {
		if got := completed(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestStatfs(t *testing.T) {
	dir := t.TempDir()
	disk, err := statfs(dir)
	if goruntime.GOOS != "linux" {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
		return
	}
	if err != nil || disk.Capacity == 0 || disk.Available > disk.Capacity {
		t.Errorf("%+v, %v, want a capacity, and at most %v available", disk, err, disk.Capacity)
	}
	if _, err := statfs(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want that it is not there", err)
	}
}

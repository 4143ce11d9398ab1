package csi

import (
	"io/fs"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Of many sockets few are asked at a time, and those first that have waited longest: a new one comes before those that were silent.
func TestNewSocketsAreAskedFirst(t *testing.T) {
	info, err := os.Stat(".")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r := &registry{sockets: map[string]fs.FileInfo{"registered": info}, asked: map[string]fs.FileInfo{"asked": info}, tried: map[string]time.Time{"early": now}}
	sockets := map[string]fs.FileInfo{"registered": info, "asked": info, "early": info, "new": info}
	for i := range 100 {
		silent := "silent" + strconv.Itoa(i)
		sockets[silent], r.tried[silent] = info, now.Add(-registerPause-time.Duration(i))
	}
	due := r.due(sockets, now)
	if len(due) != maxAsked-1 || due[0] != "new" || due[1] != "silent99" || slices.Contains(due, "early") {
		t.Errorf("%v are asked", due)
	}
}

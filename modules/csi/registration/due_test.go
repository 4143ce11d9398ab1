package registration

import (
	"io/fs"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// Few sockets are called at a time. New sockets come first, then those whose last call was longest ago.
func TestNewSocketsAreAskedFirst(t *testing.T) {
	info := must.Get(os.Stat("."))(t)
	now := time.Now()
	r := &registry{sockets: map[string]fs.FileInfo{"registered": info}, calling: map[string]fs.FileInfo{"asked": info}, lastTry: map[string]time.Time{"early": now}}
	sockets := map[string]fs.FileInfo{"registered": info, "asked": info, "early": info, "new": info}
	for i := range 100 {
		silent := "silent" + strconv.Itoa(i)
		sockets[silent], r.lastTry[silent] = info, now.Add(-registerPause-time.Duration(i))
	}
	due := r.due(sockets, now)
	if len(due) != maxCalling-1 || due[0] != "new" || due[1] != "silent99" || slices.Contains(due, "early") {
		t.Errorf("%v are asked", due)
	}
}

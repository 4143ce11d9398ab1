package podfile_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/internal/podfile"
)

// However many goroutines wait, each gets a turn, and few run at a time.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, start := podfile.NewTurns(), time.Now()
		var now, most atomic.Int64
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				defer turns.Take()()
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Second)
				now.Add(-1)
			})
		}
		all.Wait()
		if took := time.Since(start); most.Load() != 4 || took != 16*time.Second {
			t.Errorf("%d at a time, in %v, want Load 4 and took %v", most.Load(), took, 16*time.Second)
		}
	})
	podfile.Turns(nil).Take()()
}

package syncpod

import (
	"sync"
	"testing"
	"testing/synctest"
)

// All who wait for a read share the next one, and none gets a read that began before.
func TestSharedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, reads := newSharedRead[int](), 0
		release := make(chan struct{})
		read := func() (int, error) {
			reads++
			n := reads
			<-release
			return n, nil
		}
		var callers sync.WaitGroup
		get := func(want int) {
			callers.Go(func() {
				if n, _ := shared.get(read); n != want {
					t.Errorf("read %d, want %d", n, want)
				}
			})
		}
		get(1)
		synctest.Wait()
		for range 100 {
			get(2)
		}
		synctest.Wait()
		close(release)
		callers.Wait()
		if reads != 2 {
			t.Errorf("%d reads, want 2", reads)
		}
	})
}

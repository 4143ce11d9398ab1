package podworkers

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A pod is returned when it is due, whatever timers were postponed or cancelled before.
func TestTimersAgainstAPlainList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	timers := timers{earlier: make(chan struct{}, 1)}
	pods, due := make([]*worker, 8), map[*worker]time.Time{}
	for i := range pods {
		pods[i] = &worker{}
	}
	at := now
	for range 5000 {
		p := pods[r.IntN(len(pods))]
		switch r.IntN(6) {
		case 0, 1, 2:
			due[p] = at.Add(time.Duration(r.Int64N(int64(time.Minute))))
			timers.set(p, due[p])
		case 3:
			delete(due, p)
			timers.clear(p)
		case 4:
			delete(due, p)
			timers.remove(p)
		case 5:
			at = at.Add(time.Duration(r.Int64N(int64(20 * time.Second))))
			for p := timers.next(at); p != nil; p = timers.next(at) {
				if when, ok := due[p]; !ok || when.After(at) {
					t.Fatalf("a pod comes up at %v that is due at %v", at, when)
				}
				delete(due, p)
			}
			for _, when := range due {
				if !when.After(at) {
					t.Fatalf("a pod that is due at %v does not come up at %v", when, at)
				}
			}
		}
		if len(timers.heap) > len(pods) {
			t.Fatalf("%d entries for %d pods", len(timers.heap), len(pods))
		}
	}
}

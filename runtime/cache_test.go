package runtime

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// at returns a time on a test's own clock.
func at(seconds int) time.Time { return time.Unix(int64(1000+seconds), 0) }

func statusAt(uid types.UID, seconds int) *PodStatus {
	return &PodStatus{UID: uid, ObservedAt: at(seconds), Sandboxes: []SandboxStatus{{ID: "s"}}}
}

func TestP4_CacheKeepsTheReadThatBeganLast(t *testing.T) {
	var c Cache
	newer, older := statusAt("u", 2), statusAt("u", 1)
	if !c.Set("u", newer, nil, at(2)) || c.Set("u", older, nil, at(1)) {
		t.Error("Set stored an older read, or rejected a newer one")
	}
	if got, err := c.Get("u"); got != newer || err != nil {
		t.Errorf("Get: %v, %v, want the newer status", got, err)
	}
	broken := errors.New("broken")
	if c.Set("u", nil, broken, at(1)) || !c.Set("u", nil, broken, at(3)) {
		t.Error("an error is not taken as what it is, a read")
	}
	if got, err := c.Get("u"); got != newer || err != broken {
		t.Errorf("Get: %v, %v, want the last status and the error", got, err)
	}
}

func TestP4_CacheHasTheTimeOfTheRead(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name   string
		enter  func(c *Cache)
		since  int
		ok     bool
		status bool // the status has a sandbox
		err    error
	}{
		{"nothing was read", func(*Cache) {}, 0, false, false, nil},
		{"read before", func(c *Cache) { c.Set("u", statusAt("u", 1), nil, at(1)) }, 2, false, false, nil},
		{"read then", func(c *Cache) { c.Set("u", statusAt("u", 2), nil, at(2)) }, 2, false, false, nil},
		{"read since", func(c *Cache) { c.Set("u", statusAt("u", 3), nil, at(3)) }, 2, true, true, nil},
		{"failed then", func(c *Cache) { c.Set("u", nil, broken, at(2)) }, 2, false, false, nil},
		{"listed then, without the pod", func(c *Cache) { c.SetListed([]types.UID{"v"}, at(2)) }, 2, false, false, nil},
		{"failed since", func(c *Cache) { c.Set("u", nil, broken, at(3)) }, 2, true, false, broken},
		{"failed before", func(c *Cache) { c.Set("u", nil, broken, at(1)) }, 2, false, false, nil},
		{"failed, then read", func(c *Cache) {
			c.Set("u", nil, broken, at(1))
			c.Set("u", statusAt("u", 2), nil, at(2))
		}, 1, true, true, nil},
		{"listed since, without the pod", func(c *Cache) { c.SetListed([]types.UID{"v"}, at(3)) }, 2, true, false, nil},
		{"listed before, without the pod", func(c *Cache) { c.SetListed([]types.UID{"v"}, at(1)) }, 2, false, false, nil},
		{"listed since, with the pod, which was not read", func(c *Cache) { c.SetListed([]types.UID{"u"}, at(3)) }, 2, false, false, nil},
		{"read, then listed without the pod", func(c *Cache) {
			c.Set("u", statusAt("u", 1), nil, at(1))
			c.SetListed(nil, at(3))
		}, 2, true, false, nil},
		{"listed without the pod, then read", func(c *Cache) {
			c.SetListed(nil, at(3))
			c.Set("u", statusAt("u", 4), nil, at(4))
		}, 3, true, true, nil},
		{"listed without the pod, then read without it", func(c *Cache) {
			c.SetListed(nil, at(3))
			c.Set("u", &PodStatus{UID: "u", ObservedAt: at(4)}, nil, at(4))
		}, 3, true, false, nil},
		{"listed without the pod, and a read of the same time failed", func(c *Cache) {
			c.SetListed(nil, at(3))
			c.Set("u", nil, broken, at(3))
		}, 2, true, false, broken},
		{"a read that began before the list without the pod ends after it", func(c *Cache) {
			c.SetListed(nil, at(3))
			c.Set("u", statusAt("u", 2), nil, at(2))
		}, 2, true, false, nil},
		{"a list that began before the read ends after it", func(c *Cache) {
			c.Set("u", statusAt("u", 4), nil, at(4))
			c.SetListed(nil, at(3))
		}, 2, true, true, nil},
		{"a list that began before another ends after it", func(c *Cache) {
			c.SetListed([]types.UID{"u"}, at(5))
			c.SetListed(nil, at(3))
		}, 2, false, false, nil},
		{"listed, then not listed", func(c *Cache) {
			c.SetListed([]types.UID{"u"}, at(3))
			c.SetListed(nil, at(5))
		}, 4, true, false, nil},
	} {
		var c Cache
		tt.enter(&c)
		s, ok, err := c.Newer("u", at(tt.since))
		if ok != tt.ok || !s.Empty() != tt.status || err != tt.err || ok && err == nil && !s.ObservedAt.After(at(tt.since)) {
			t.Errorf("%s: %+v, %v, %v, want %v and %v and %v and a read after since", tt.name, s, ok, err, tt.ok, tt.status, tt.err)
		}
	}
}

// A pod that was never read is not newer than any time. Only a read satisfies the zero time.
func TestP4_UnreadStatusIsNeverNewer(t *testing.T) {
	var c Cache
	for range 2 {
		if s, ok, _ := c.Newer("u", time.Time{}); ok {
			t.Errorf("%+v though nothing was read", s)
		}
		c.SetListed([]types.UID{"u"}, at(1))
	}
}

func TestWaitNewerWaitsForARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Cache
		var all sync.WaitGroup
		since := time.Now()
		for _, uid := range []types.UID{"read", "gone"} {
			for range 3 {
				all.Go(func() {
					s, err := c.WaitNewer(t.Context(), uid, since)
					if err != nil || s.Empty() != (uid == "gone") || time.Since(since) != 2*time.Minute {
						t.Errorf("WaitNewer(%s) after %v: %+v, %v, want it after %v, empty only for gone", uid, time.Since(since), s, err, 2*time.Minute)
					}
				})
			}
		}
		time.Sleep(time.Minute)
		c.Set("read", &PodStatus{}, nil, since.Add(-1))
		c.SetListed([]types.UID{"read"}, since.Add(-1))
		time.Sleep(time.Minute)
		c.Set("read", &PodStatus{Sandboxes: []SandboxStatus{{ID: "s"}}}, nil, time.Now())
		c.SetListed([]types.UID{"read"}, time.Now())
		all.Wait()
	})
}

func TestP5_WaitNewerIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Cache
		c.Set("known", statusAt("known", 1), nil, time.Now())
		var all sync.WaitGroup
		for _, uid := range []types.UID{"known", "unknown"} {
			for i := range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Second)
				defer cancel()
				all.Go(func() {
					if _, err := c.WaitNewer(ctx, uid, time.Now().Add(time.Hour)); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("WaitNewer(%s): %v", uid, err)
					}
				})
			}
		}
		time.Sleep(1500 * time.Millisecond)
		c.Set("known", statusAt("known", 2), nil, time.Now()) // goroutines that still wait go on waiting
		all.Wait()
		if len(c.entries) != 1 || c.entries["known"].waiting != 0 || c.entries["known"].updated != nil {
			t.Errorf("entries after all callers have returned: %+v", c.entries)
		}
	})
}

func TestP5_CancelledCallerCancelsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Cache
		since := time.Now()
		_, woken, _ := c.newerOrUpdated("u", since)
		c.Set("u", statusAt("u", 1), nil, since.Add(-1))
		told := make(chan error, 1)
		go func() {
			_, err := c.WaitNewer(t.Context(), "u", since)
			told <- err
		}()
		_, waiting, _ := c.newerOrUpdated("u", since)
		synctest.Wait()
		c.leave("u", woken) // the goroutine that waits for a newer read
		c.leave("u", waiting)
		c.Set("u", statusAt("u", 2), nil, since.Add(1))
		synctest.Wait()
		select {
		case err := <-told:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("a caller still waits after a newer status")
		}
	})
}

func TestUIDsAreThoseOfReads(t *testing.T) {
	var c Cache
	uids := []types.UID{"f", "b", "e", "a", "d", "c"}
	c.SetListed(append(uids, "not read"), at(1))
	for _, uid := range uids {
		c.Set(uid, statusAt(uid, 1), nil, at(1))
	}
	if got := c.UIDs(); !slices.Equal(got, []types.UID{"a", "b", "c", "d", "e", "f"}) {
		t.Errorf("%v, want what was read, in order", got)
	}
}

// W11: the Cache drops the pods that a list does not contain.
func TestCacheHoldsNoMoreThanTheRuntime(t *testing.T) {
	var c Cache
	for i := range 1000 {
		uid := types.UID(string(rune('a'+i%26))) + types.UID(string(rune('0'+i/26%40)))
		c.Set(uid, statusAt(uid, i), nil, at(i))
		c.SetListed([]types.UID{uid}, at(i))
		if !c.Set("gone", &PodStatus{UID: "gone"}, nil, at(i)) {
			t.Fatal("Set rejects the state of the list")
		}
		if got := c.UIDs(); !slices.Equal(got, []types.UID{uid}) {
			t.Fatalf("after a list of %s: %v", uid, got)
		}
	}
}

func TestCacheIsConcurrent(t *testing.T) {
	var c Cache
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				go cancel()
				c.WaitNewer(ctx, "u", time.Now())
				if i%3 == 0 {
					c.SetListed([]types.UID{"u"}, time.Now())
				} else {
					c.Set("u", statusAt("u", i), nil, time.Now())
				}
				c.Get("u")
				c.UIDs()
			}
		})
	}
	all.Wait()
	if e := c.entries["u"]; e != nil && e.waiting != 0 {
		t.Errorf("%d wait when all have left", e.waiting)
	}
}

func TestEqualSeesEveryField(t *testing.T) {
	when := time.Unix(5, 0)
	full := func() *PodStatus {
		return &PodStatus{UID: "u", Name: "n", Namespace: "ns", ObservedAt: when,
			Sandboxes: []SandboxStatus{{ID: "s", CreatedAt: when, Network: &SandboxNetwork{IPs: []string{"10.0.0.1"}}}},
			Containers: []ContainerStatus{{Name: "c", CreatedAt: when, StartedAt: when, FinishedAt: when, Resources: &ContainerResources{CPULimit: 5},
				Reported: &ReportedResources{CPURequest: new(int64(1)), CPULimit: new(int64(2)), MemoryRequest: new(int64(3)), MemoryLimit: new(int64(4))},
				User:     &ContainerUser{UID: 1, GID: 2, Groups: []int64{3}}, StopSignal: "SIGTERM",
			}},
		}
	}
	same := full()
	same.ObservedAt = time.Now()
	same.Sandboxes[0].CreatedAt = when.UTC()
	same.Containers[0].CreatedAt, same.Containers[0].StartedAt, same.Containers[0].FinishedAt = when.UTC(), when.UTC(), when.UTC()
	if !full().Equal(same) {
		t.Error("the time of the read or the time zone counts")
	}
	if !(*PodStatus)(nil).Equal(&PodStatus{UID: "u"}) || (*PodStatus)(nil).Equal(full()) || full().Equal(nil) ||
		(&PodStatus{Containers: full().Containers}).Equal(nil) {
		t.Error("nil does not equal a status without anything, and that alone")
	}
	for i, change := range []func(*PodStatus){
		func(s *PodStatus) { s.UID = "v" },
		func(s *PodStatus) { s.Name = "m" },
		func(s *PodStatus) { s.Namespace = "x" },
		func(s *PodStatus) { s.Sandboxes = append(s.Sandboxes, SandboxStatus{}) },
		func(s *PodStatus) { s.Sandboxes[0].State = SandboxReady },
		func(s *PodStatus) { s.Sandboxes[0].CreatedAt = at(1) },
		func(s *PodStatus) { s.Sandboxes[0].Network = nil },
		func(s *PodStatus) { s.Sandboxes[0].Network.IPs[0] = "10.0.0.2" },
		func(s *PodStatus) { s.Containers = nil },
		func(s *PodStatus) { s.Containers[0].ExitCode = 1 },
		func(s *PodStatus) { s.Containers[0].CreatedAt = at(1) },
		func(s *PodStatus) { s.Containers[0].StartedAt = at(1) },
		func(s *PodStatus) { s.Containers[0].FinishedAt = at(1) },
		func(s *PodStatus) { s.Containers[0].Resources.CPULimit = 6 },
		func(s *PodStatus) { s.Containers[0].Resources = nil },
		func(s *PodStatus) { *s.Containers[0].Reported.CPURequest = 9 },
		func(s *PodStatus) { s.Containers[0].Reported.CPULimit = nil },
		func(s *PodStatus) { *s.Containers[0].Reported.MemoryRequest = 9 },
		func(s *PodStatus) { *s.Containers[0].Reported.MemoryLimit = 9 },
		func(s *PodStatus) { s.Containers[0].Reported = nil },
		func(s *PodStatus) { s.Containers[0].User = nil },
		func(s *PodStatus) { s.Containers[0].User.UID = 9 },
		func(s *PodStatus) { s.Containers[0].User.GID = 9 },
		func(s *PodStatus) { s.Containers[0].User.Groups[0] = 9 },
		func(s *PodStatus) { s.Containers[0].StopSignal = "" },
	} {
		s := full()
		if change(s); s.Equal(full()) || full().Equal(s) {
			t.Errorf("change %d is not seen", i)
		}
	}
}

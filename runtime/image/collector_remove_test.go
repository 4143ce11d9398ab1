package image_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/image"
)

// G1: an image that an agent without these leases has begun to use since the list is not removed: its use is checked
// once more.
func TestG1_UseIsCheckedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, localImages("a", "b"), nil)
		s.collect(85)
		time.Sleep(time.Hour)
		gate := &faults.Gate{}
		s.inject(faults.Fault{Match: faults.Match{Method: critest.Status}, Hang: gate}) // the lists are read
		var wg sync.WaitGroup
		var calls critest.Journal
		wg.Go(func() { calls = s.collect(99) })
		synctest.Wait()
		s.use("a")
		gate.Open()
		wg.Wait()
		if got := removals(calls); got != "b" {
			t.Errorf("%q was removed", got)
		}
	})
}

// G1: during the check and the removal, no request is answered that the image is present.
func TestG1_PullDuringTheRemovalPullsAgain(t *testing.T) {
	for _, m := range []critest.Method{critest.ListContainers, critest.RemoveImage} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, localImages("a"), nil)
			s.collect(85)
			time.Sleep(time.Hour)
			gate, skip := &faults.Gate{}, 0
			if m == critest.ListContainers {
				skip = 1
			}
			s.inject(faults.Fault{Match: faults.Match{Method: m}, Skip: skip, Hang: gate})
			var wg sync.WaitGroup
			wg.Go(func() { s.collect(85) })
			synctest.Wait()
			wg.Go(func() {
				if img := s.ensure("a"); !img.Pulled {
					t.Errorf("handed out an image that was to be removed during %s", m)
				}
			})
			synctest.Wait()
			time.Sleep(time.Minute)
			gate.Open()
			wg.Wait()
			if got := removals(s.Journal()); got != "a" {
				t.Errorf("%q was removed", got)
			}
		})
	}
}

// G1: at whatever times images are requested, used and released, no container's image is missing, although everything
// removable is removed.
func TestG1_NoContainerMissesItsImage(t *testing.T) {
	removed := 0
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			removed += interleave(t, seed)
		})
	}
	if removed < 50 {
		t.Errorf("%d images were removed, which shows little", removed)
	}
}

// interleave adds and removes pods during passes, and returns how many images were removed.
func interleave(t *testing.T, seed uint64) int {
	names := []string{"a", "b", "c"}
	s := newStore(t, localImages(names...), func(c *image.CollectorConfig) { c.Policy.MinAge = 1 })
	s.used = 100
	latency := func(m critest.Method, skew uint64) {
		s.inject(faults.Fault{Match: faults.Match{Method: m}, Times: faults.Always, Delay: time.Duration(1+(seed*7+skew*3)%11) * time.Millisecond})
	}
	for i, m := range []critest.Method{critest.ListContainers, critest.RemoveImage, critest.ImageStatus, critest.CreateContainer, critest.PullImage} {
		latency(m, uint64(i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var passes, pods sync.WaitGroup
	passes.Go(func() {
		for ctx.Err() == nil {
			_ = s.collector.Collect(ctx) // the disk stays full
			time.Sleep(time.Millisecond)
		}
	})
	for i, name := range slices.Concat(names, names) {
		pods.Go(func() { s.live(i, name, time.Duration(seed)*time.Millisecond) })
	}
	pods.Wait()
	cancel()
	passes.Wait()
	return s.Journal().Count(critest.RemoveImage)
}

// live creates and removes a container many times, as an agent does.
func (s *store) live(i int, name string, pause time.Duration) {
	config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "ns", Uid: fmt.Sprint(i)}}
	box, err := s.client.RunPodSandbox(s.t.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		s.t.Error(err)
		return
	}
	for n := range 10 {
		img := s.ensure(name)
		time.Sleep(time.Duration(n*i) * time.Millisecond)
		id, err := s.create(box.GetPodSandboxId(), config, name)
		img.Release()
		if err != nil {
			s.t.Errorf("pod %d finds its image gone: %v", i, err)
			return
		}
		time.Sleep(pause)
		if _, err := s.client.RemoveContainer(s.t.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: id}); err != nil {
			s.t.Error(err)
		}
		time.Sleep(time.Duration(10*n) * time.Millisecond)
	}
}

// G5: an image that cannot be removed delays no other removal, and is retried with growing pauses.
func TestG5_AnImageThatCannotBeRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, localImages("a", "b", "c"), nil)
		s.inject(faults.Fault{Match: faults.Match{Method: critest.RemoveImage, Image: idOf("a")}, Times: faults.Always, Err: status.Error(codes.Unknown, "device or resource busy")})
		s.collect(85)
		time.Sleep(time.Hour)
		calls, err := s.tryCollect(95)
		if got := removals(calls); got != "a b" || err == nil || !strings.Contains(err.Error(), "remove r.io/a:v1") ||
			!strings.Contains(err.Error(), "busy") || !errors.Is(err, image.ErrDiskFull) || !strings.Contains(err.Error(), "10737418240 were") {
			t.Errorf("%q was asked for, %v", got, err)
		}
		if got, err := s.tryCollect(95); removals(got) != "c" || !errors.Is(err, image.ErrDiskFull) {
			t.Errorf("then %q was asked for, %v", removals(got), err)
		}
		tries := 0
		for range 24 * 12 {
			time.Sleep(5 * time.Minute)
			calls, _ := s.tryCollect(95) // reported above
			tries += calls.Count(critest.RemoveImage)
		}
		if tries < 12 || tries > 17 {
			t.Errorf("%d attempts in a day, want one in two hours, after some", tries)
		}
	})
}

// G5: an image that does not exist counts as removed.
func TestG5_NotFoundIsSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, localImages("a"), nil)
		s.inject(faults.Fault{Match: faults.Match{Method: critest.RemoveImage}, Err: status.Error(codes.NotFound, "image not found")})
		s.wantRemoved(85, "a")
	})
}

// A runtime that becomes unavailable during a pass, or cannot list the images in use, ends the pass. This does not
// count against the image, nor as a full disk.
func TestCollectFromARuntimeThatBecomesUnavailable(t *testing.T) {
	for _, f := range []faults.Fault{
		{Match: faults.Match{Method: critest.ListContainers}, Skip: 1, Err: status.Error(codes.Unavailable, "trouble")},
		{Match: faults.Match{Method: critest.ListContainers}, Skip: 1, Err: status.Error(codes.Unknown, "trouble")},
		{Match: faults.Match{Method: critest.RemoveImage}, Err: status.Error(codes.Unavailable, "trouble")},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, localImages("a", "b"), nil)
			s.collect(85)
			time.Sleep(time.Hour)
			s.inject(f)
			if _, err := s.tryCollect(99); err == nil || !strings.Contains(err.Error(), "trouble") || errors.Is(err, image.ErrDiskFull) {
				t.Errorf("%v, want an error with %q in it, and not ErrDiskFull", err, "trouble")
			}
			if got := removals(s.collect(99)); got != "a b" {
				t.Errorf("%q was removed when it was back", got)
			}
		})
	}
}

// using is a runtime with a container.
type using struct {
	*cri.Client
	container *runtimeapi.Container
}

func (r using) ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{r.container}}, nil
}

// E2: a removal that hangs delays neither other images nor, beyond its timeout, the pass. A caller that waits for the
// pass can stop waiting at any time.
func TestE2_AHangingRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, localImages("a", "b"), nil)
		s.collect(85)
		time.Sleep(time.Hour)
		gate := &faults.Gate{}
		s.inject(faults.Fault{Match: faults.Match{Method: critest.RemoveImage, Image: idOf("a")}, Hang: gate})
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			calls, err := s.tryCollect(95)
			if got := removals(calls); got != "a b" || !errors.Is(err, cri.ErrDeadline) || time.Since(began) != 2*time.Minute {
				t.Errorf("after %v: %q was asked for, %v", time.Since(began), got, err)
			}
		})
		synctest.Wait()
		s.ensure("b").Release()
		s.ensure("new").Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.collector.Collect(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("the second pass: %v after %v", err, time.Since(began))
		}
		s.ensure("a").Release()
		if took := time.Since(began); took != 2*time.Minute {
			t.Errorf("who wanted the image itself waited %v", took)
		}
		wg.Wait()
	})
}

// E2: a pass ends with its context, whatever hangs.
func TestE2_CollectEndsWithItsContext(t *testing.T) {
	for _, m := range []critest.Method{critest.ImageFsInfo, critest.ListImages, critest.ListContainers, critest.Status, critest.RemoveImage} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, localImages("a", "b"), nil)
			s.collect(85)
			time.Sleep(time.Hour)
			s.used = 99
			s.inject(faults.Fault{Match: faults.Match{Method: m}, Hang: &faults.Gate{}})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			if err := s.collector.Collect(ctx); err == nil || time.Since(began) != time.Second || s.Journal().Count(critest.RemoveImage) > 1 {
				t.Errorf("%s: %v after %v, want an error and %v and at most 1", m, err, time.Since(began), time.Second)
			}
			if got := removals(s.collect(99)); got != "a b" {
				t.Errorf("then %q was removed: what was given up is no failure", got)
			}
		})
	}
}

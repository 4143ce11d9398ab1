package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// remove removes an image from r as a garbage collector would.
func (r *registry) remove(t *testing.T, l *Leases, name string, took time.Duration) bool {
	t.Helper()
	removed := must.Get(l.Remove(t.Context(), stored(name), func(context.Context) error {
		time.Sleep(took)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.present, name)
		return nil
	}))(t)
	return removed
}

// G1: no image is removed between EnsureImageExists and Release, under any of its names.
func TestG1_AnImageInUseStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{}
		m := newTestManager(t, Settings{Runtime: r})
		l := m.Leases()
		a := must.Get(m.EnsureImageExists(t.Context(), Request{Image: "app:v1"}))(t)
		b := must.Get(m.EnsureImageExists(t.Context(), Request{Image: "app:v1"}))(t)
		retagged := &runtimeapi.Image{Id: a.ID, RepoTags: []string{"docker.io/library/other:v1"}}
		for _, img := range []*runtimeapi.Image{stored("app:v1"), retagged, {Id: "x", RepoTags: []string{"docker.io/library/app:v1"}}} {
			if removed, _ := l.Remove(t.Context(), img, func(context.Context) error { return nil }); removed || !l.Held(img) {
				t.Errorf("%v was removed while in use", img)
			}
		}
		a.Release()
		a.Release()
		if r.remove(t, l, "app:v1", 0) {
			t.Error("removed while the second container was to be created")
		}
		b.Release()
		if !r.remove(t, l, "app:v1", 0) {
			t.Error("an image that no pod needs is not removed")
		}
	})
}

// G1: a request for an image that is being removed gets the image after a new pull.
func TestG1_AnImageBeingRemovedIsPulledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{}
		r.add("app:v1")
		m := newTestManager(t, Settings{Runtime: r})
		l := m.Leases()
		began := time.Now()
		go r.remove(t, l, "app:v1", time.Minute)
		time.Sleep(time.Second)
		if r.remove(t, l, "app:v1", 0) {
			t.Error("removed twice at once")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := m.EnsureImageExists(ctx, Request{Image: "app:v1"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the context's error", err)
		}
		img, err := m.EnsureImageExists(t.Context(), Request{Image: "app:v1"})
		if err != nil || !img.Pulled || time.Since(began) != time.Minute {
			t.Errorf("after %v: %+v, %v; want a pull when the removal is over", time.Since(began), img, err)
		}
	})
}

// G1: the image is removed under a name that the request does not have.
func TestG1_RemovalUnderAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{}
		r.add("app:v1")
		m := newTestManager(t, Settings{Runtime: r})
		l := m.Leases()
		go l.Remove(t.Context(), &runtimeapi.Image{Id: stored("app:v1").Id}, func(context.Context) error {
			time.Sleep(time.Minute)
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.present, "app:v1")
			return nil
		})
		time.Sleep(time.Second)
		if img, err := m.EnsureImageExists(t.Context(), Request{Image: "app:v1"}); err != nil || !img.Pulled {
			t.Errorf("%+v, %v; want a pull when the removal is over", img, err)
		}
		if want := []string{"app:v1"}; !slices.Equal(r.pulls, want) {
			t.Errorf("pulls %v, want %v", r.pulls, want)
		}
	})
}

// G1: runtimes list an image that was requested by tag and digest under both.
func TestG1_ALeaseByTagAndDigestHoldsEither(t *testing.T) {
	l, digest := &Leases{}, "@sha256:"+strings.Repeat("a", 64)
	lease := must.Get(l.Acquire(t.Context(), "r.io/app:v1"+digest))(t)
	for _, img := range []*runtimeapi.Image{
		{Id: "x", RepoTags: []string{"r.io/app:v1"}},
		{Id: "x", RepoDigests: []string{"r.io/app" + digest}},
		{Id: "x", RepoDigests: []string{"r.io/app:v1" + digest}},
	} {
		if !l.Held(img) {
			t.Errorf("%v is not held", img)
		}
	}
	if l.Held(&runtimeapi.Image{Id: "y", RepoTags: []string{"r.io/app:v2"}}) {
		t.Error("another tag is held")
	}
	lease.Release()
	if len(l.held) != 0 {
		t.Errorf("left behind: %v", l.held)
	}
}

// The records about an image are deleted with it.
func TestAccessIsForgottenWithTheImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{}
		m := newTestManager(t, Settings{Runtime: r})
		l := m.Leases()
		login := []v1.Secret{loginSecret("s", "r.io", "bob", "right")}
		for i := range 10 {
			name := fmt.Sprintf("r.io/app:v%d", i)
			if i%2 == 1 {
				r.fails = status.Error(codes.DeadlineExceeded, "too late")
			}
			ensure(t, m, Request{Image: name, PodUID: "a", Secrets: login})
			r.fails = nil
			r.add(name)
			if !r.remove(t, l, name, 0) {
				t.Errorf("%s was not removed", name)
			}
		}
		if len(m.access.grants)+len(m.access.intents)+len(m.access.read) > 0 {
			t.Errorf("left behind: %v %v", m.access.grants, m.access.intents)
		}
	})
}

func TestAFailedRemovalLeavesNothingBehind(t *testing.T) {
	l, boom := &Leases{}, errors.New("boom")
	removed, err := l.Remove(t.Context(), stored("app:v1"), func(context.Context) error { return boom })
	if removed || !errors.Is(err, boom) {
		t.Errorf("%v, %v", removed, err)
	}
	lease := must.Get(l.Acquire(t.Context(), "app:v1"))(t)
	lease.Release()
	if len(l.held)+len(l.removing) != 0 {
		t.Errorf("left behind: %v %v", l.held, l.removing)
	}
	(*Lease)(nil).Release()
}

func TestAFailedEnsureHoldsNothing(t *testing.T) {
	m := newTestManager(t, Settings{Runtime: &registry{fails: errors.New("boom")}})
	l := m.Leases()
	if err := ensure(t, m, Request{Image: "app:v1"}); !errors.Is(err, ErrImagePull) || len(l.held) != 0 {
		t.Errorf("%v; held %v, want error %v and no held", err, l.held, ErrImagePull)
	}
}

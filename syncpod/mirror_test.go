package syncpod_test

import (
	"context"
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
)

// mirrors is an API server that holds one mirror pod.
type mirrors struct {
	err              error
	now              *v1.Pod
	created, deleted []types.UID
}

func (m *mirrors) MirrorPod(context.Context, *v1.Pod) (*v1.Pod, error) { return m.now, m.err }

func (m *mirrors) CreateMirrorPod(_ context.Context, pod *v1.Pod) error {
	if m.err == nil {
		m.now = pod.DeepCopy()
		m.now.UID = types.UID("mirror-" + string(rune('0'+len(m.created))))
		m.created = append(m.created, pod.UID)
	}
	return m.err
}

func (m *mirrors) DeleteMirrorPod(_ context.Context, pod *v1.Pod) error {
	m.deleted, m.now = append(m.deleted, pod.UID), nil
	return m.err
}

func staticPod(hash string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": hash}
	}
}

// M4: a mirror is kept up to date, and never is what runs.
func TestM4_MirrorPod(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		api := &mirrors{err: errors.New("no API server")}
		n.restart(func(c *syncpod.Config) { c.Extensions.Mirrors = api })
		n.settle(testPod(staticPod("one")), time.Minute) // runs without its mirror
		api.err = nil
		if n.sync(testPod()); len(api.created) > 0 {
			t.Fatal("the mirror of a pod that is not static")
		}
		for range 3 {
			n.sync(testPod(staticPod("one")))
		}
		if len(api.created) != 1 || api.created[0] != "" || api.now.Annotations[v1.MirrorPodAnnotationKey] != "one" {
			t.Fatalf("created %v, %+v, want 1 of them and %q and %q", api.created, api.now, "", "one")
		}
		for name, outdate := range map[string]func(){
			"other version": func() { api.now.Annotations[v1.MirrorPodAnnotationKey] = "two" },
			"being deleted": func() { api.now.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
			"gone":          func() { api.now = nil },
		} {
			outdate()
			old, created, deleted := api.now, len(api.created), len(api.deleted)
			n.sync(testPod(staticPod("one")))
			n.sync(testPod(staticPod("one")))
			if len(api.created) != created+1 {
				t.Errorf("%s: created %d times, want once", name, len(api.created)-created)
			}
			if old != nil && (len(api.deleted) != deleted+1 || api.deleted[deleted] != old.UID) {
				t.Errorf("%s: deleted %v, want %s", name, api.deleted[deleted:], old.UID)
			}
		}
		if n.Journal().Count(critest.StopContainer) > 0 || n.Journal().Count(critest.CreateContainer) != 1 {
			t.Errorf("the mirror touched what runs:\n%v", n.Journal())
		}
	})
}

// M4: no mirror is made while it is not known whether there is one, or beside one that
// has to go. A static pod runs without any.
func TestM4_NoMirrorBesideAnother(t *testing.T) {
	down := errors.New("no API server")
	for name, tc := range map[string]failingMirrors{"not known": {look: down}, "not deleted": {remove: down}, "nobody makes any": {}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				if tc != (failingMirrors{}) {
					tc.mirrors = &mirrors{now: testPod(staticPod("old"))}
					n.restart(func(c *syncpod.Config) { c.Extensions.Mirrors = tc })
				}
				n.settle(testPod(staticPod("one")), time.Minute)
				if tc.mirrors != nil && len(tc.created) > 0 {
					t.Errorf("created %v, want not (tc.mirrors != nil && len(tc.created) > 0)", tc.created)
				}
			})
		})
	}
}

// failingMirrors cannot look for a mirror, or delete one.
type failingMirrors struct {
	*mirrors
	look, remove error
}

func (f failingMirrors) MirrorPod(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	if f.look != nil {
		return nil, f.look
	}
	return f.mirrors.MirrorPod(ctx, pod)
}

func (f failingMirrors) DeleteMirrorPod(context.Context, *v1.Pod) error { return f.remove }

package syncpod_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/poddir"
	"github.com/podsync/podsync/syncpod/volume/local"
)

// refresher counts its calls, and fails on request.
type refresher struct {
	calls int
	next  time.Time
	err   error
}

func (r *refresher) RefreshPod(context.Context, *v1.Pod) (time.Time, error) {
	r.calls++
	return r.next, r.err
}

// Each SyncPod of a pod that may run refreshes its volumes, requests the next sync at the time that they
// return, and does not fail if they fail.
func TestVolumesAreRefreshed(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		var refusal *syncpod.Rejection
		r := &refresher{next: time.Now().Add(time.Hour)}
		n.restart(func(c *syncpod.Config) {
			c.Parts.Refresh = r
			c.Extensions.Admit = []syncpod.Admitter{admitterFunc(func(context.Context, *v1.Pod) *syncpod.Rejection { return refusal })}
		})
		n.settle(testPod(), time.Minute)
		before, calls := len(n.Journal()), r.calls
		r.err = errors.New("the server is unavailable")
		if got := n.sync(testPod()); !got.NextTry.Equal(r.next) || r.calls != calls+1 {
			t.Errorf("next try at %v, want %v, after %d calls", got.NextTry, r.next, r.calls-calls)
		}
		if n.events.count("FailedMount") != 1 || n.events.count("FailedMount  Unable to attach or mount volumes: the server is unavailable") != 1 || n.report.last().Phase != v1.PodRunning {
			t.Errorf("%v, events %q, want 1 and 1 and Phase %v", n.report.last().Phase, n.events.all, v1.PodRunning)
		}
		if changes := n.Journal().After(before).Changes(); len(changes) > 0 {
			t.Errorf("the pod was disturbed:\n%v", changes)
		}
		calls, refusal = r.calls, &syncpod.Rejection{Reason: "AppArmor"}
		n.sync(testPod())
		deleted := testPod(func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		refusal = nil
		n.sync(deleted)
		if r.calls != calls {
			t.Errorf("%d calls for a pod that may not run", r.calls-calls)
		}
	})
}

// Volumes are kept up to date by default where they are made by default: a Prepare
// that is not podsync's is not interfered with.
func TestRefresher(t *testing.T) {
	for _, own := range []bool{false, true} {
		root := t.TempDir()
		bubble(t, func(t *testing.T, n *node) {
			text := "one"
			configs := env.ConfigMapsFunc(func(context.Context, string, string) (*v1.ConfigMap, error) {
				return &v1.ConfigMap{Data: map[string]string{"text": text}}, nil
			})
			volumes, err := local.New(local.Config{ConfigMaps: configs, Unprivileged: true})
			must(t, err)
			dirs, err := poddir.New(poddir.Config{Root: root, Volumes: volumes})
			must(t, err)
			want := "two"
			n.restart(func(c *syncpod.Config) {
				c.Root, c.Objects.Sources.ConfigMaps = root, configs
				if own {
					c.Parts.Prepare, want = dirs, "one"
				}
			})
			pod := testPod(func(p *v1.Pod) {
				p.Spec.Volumes = []v1.Volume{{Name: "conf", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}}}
				p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "conf", MountPath: "/conf"}}
			})
			n.settle(pod, time.Minute)
			text = "two"
			n.sync(pod)
			got, err := os.ReadFile(filepath.Join(root, "pods", podUID, "volumes/kubernetes.io~configmap/conf/text"))
			if err != nil || string(got) != want {
				t.Errorf("own %v: the volume holds %q, %v, want %q", own, got, err, want)
			}
		})
	}
}

// stuck is a refresh that does not return before its context ends.
type stuck struct{ calls int }

func (s *stuck) RefreshPod(ctx context.Context, _ *v1.Pod) (time.Time, error) {
	s.calls++
	<-ctx.Done()
	return time.Time{}, ctx.Err()
}

// Volumes delay a sync for at most 2 s, and a cancelled refresh is not reported.
func TestRefreshIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		given, took  time.Duration
		calls, told  int
		beforeImages bool
	}{
		"too long":        {time.Hour, 2 * time.Second, 1, 1, false},
		"given up":        {time.Second, time.Second, 1, 0, false},
		"given up before": {time.Second / 2, time.Second / 2, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				s := &stuck{}
				n.restart(func(c *syncpod.Config) { c.Parts.Refresh = s })
				if tc.beforeImages {
					n.Fault(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Hang: &faults.Gate{}})
				}
				began := time.Now()
				n.SyncPod(giveUp(t, tc.given), testPod(), nil)
				if took := time.Since(began); took != tc.took || s.calls != tc.calls || n.events.count("FailedMount") != tc.told {
					t.Errorf("%d calls took %v, want %d and %v; events %q", s.calls, took, tc.calls, tc.took, n.events.all)
				}
			})
		})
	}
}

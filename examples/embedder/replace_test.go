package embedder

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/podspec"
	"github.com/podsync/podsync/syncpod/source"
	"github.com/podsync/podsync/syncpod/volume"
)

// times has when something happened, by name.
type times struct {
	mu sync.Mutex
	at map[string][]time.Time
}

func (s *times) note(name string) (count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[name] = append(s.at[name], time.Now())
	return len(s.at[name])
}

// longest returns the longest time between two events, and their count.
func (s *times) longest(name string) (longest time.Duration, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, at := range s.at[name] {
		if i > 0 {
			longest = max(longest, at.Sub(s.at[name][i-1]))
		}
	}
	return longest, len(s.at[name])
}

// mirror is an image source that has not got one image, and gets all others from a runtime.
type mirror struct {
	cri.ImagePuller
	pulls *times
}

func (m mirror) PullImage(ctx context.Context, r *runtimeapi.PullImageRequest, opts ...grpc.CallOption) (*runtimeapi.PullImageResponse, error) {
	if m.pulls.note(r.GetImage().GetImage()); r.GetImage().GetImage() == "missing:v1" {
		return nil, errDenied
	}
	return m.ImagePuller.PullImage(ctx, r, opts...)
}

// folders provides the volumes of claims as directories. The first setUps fail.
type folders struct {
	dir    string
	setUps *times
	fails  int
}

func (folders) Provides(vol *v1.Volume) bool { return vol.PersistentVolumeClaim != nil }

func (f folders) SetUp(_ context.Context, _ *v1.Pod, vol *v1.Volume, _ string) error {
	if f.setUps.note(vol.Name) <= f.fails {
		return errors.New("not attached yet")
	}
	return os.MkdirAll(filepath.Join(f.dir, vol.PersistentVolumeClaim.ClaimName), 0o750)
}

func (f folders) Locate(_ *v1.Pod, vol *v1.Volume, _ string) (volume.Location, error) {
	return volume.Location{Path: filepath.Join(f.dir, vol.PersistentVolumeClaim.ClaimName)}, nil
}

func (folders) TearDown(context.Context, types.UID, string) error { return nil }

// ready are probes that find each container ready that they have observed.
type ready struct {
	mu   sync.Mutex
	seen map[types.UID]map[runtime.ContainerID]actions.ProbeResults
}

func (r *ready) Observe(pod *v1.Pod, status *runtime.PodStatus, _ bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	results := map[runtime.ContainerID]actions.ProbeResults{}
	for _, c := range status.Containers {
		results[c.ID] = actions.ProbeResults{Readiness: actions.ProbeSuccess}
	}
	r.seen[pod.UID] = results
}

func (r *ready) ProbeResults(pod types.UID) map[runtime.ContainerID]actions.ProbeResults {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[pod]
}

func (r *ready) Forget(types.UID) {}

// reports has each pod's last status.
type reports struct {
	mu   sync.Mutex
	last map[types.UID]v1.PodStatus
}

func (r *reports) report(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[pod.UID] = status
	return nil
}

func (r *reports) of(uid types.UID) v1.PodStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[uid]
}

func (r *reports) ready(uid types.UID) bool {
	return slices.ContainsFunc(r.of(uid).Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue })
}

// named returns a pod whose container runs a command.
func named(name string, command ...string) *v1.Pod {
	return podspec.Default(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "app:v1", Command: command}}},
	})
}

// Task 12: in an agent of podsync, each part that Replace sets acts: admission, image source, volume plugin, probes, sink, and
// the back-offs of crashes, volumes, pulls and failed work.
func TestReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, conn := critest.Start(t, critest.Config{})
		client, root := cri.NewClient(conn), t.TempDir()
		pods, seen := source.NewPush(), &reports{last: map[types.UID]v1.PodStatus{}}
		images := mirror{client, &times{at: map[string][]time.Time{}}}
		volumes := folders{filepath.Join(root, "claims"), &times{at: map[string][]time.Time{}}, 8}
		c := agent.Config{
			Client: client, Root: root, Sources: []source.Source{pods}, NoEviction: true, NoOOMEvents: true, NoImageGC: true,
			Sync: syncpod.Config{RuntimeName: "critest", Node: syncpod.Node{LogsRoot: filepath.Join(root, "logs"), DialPod: rt.DialPod}},
		}
		Replace(&c, Own{
			Admit: func(pod *v1.Pod, _ []*v1.Pod) *syncpod.Rejection {
				if pod.Name == "large" {
					return &syncpod.Rejection{Reason: "TooLarge", Message: "not here"}
				}
				return nil
			},
			Images: images, Volumes: volumes, Report: seen.report, Probes: &ready{seen: map[types.UID]map[runtime.ContainerID]actions.ProbeResults{}},
		})
		a, err := agent.New(c)
		if err != nil {
			t.Fatal(err)
		}
		large, crash, missing := named("large", "sleep", "1000"), named("crash", "sh", "-c", "exit 3"), named("missing")
		missing.Spec.Containers[0].Image = "missing:v1"
		probed := named("probed", "sleep", "1000")
		probed.Spec.Containers[0].ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"false"}}}}
		db := named("db", "sleep", "1000")
		db.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "db-0"}}}}
		db.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		if err := pods.Set(large, crash, missing, podspec.Default(probed), db); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		time.Sleep(time.Minute)

		if got := seen.of("large"); got.Phase != v1.PodFailed || got.Reason != "TooLarge" {
			t.Errorf("admission: %s, %s: want that the pod is rejected", got.Phase, got.Reason)
		}
		if _, pulls := images.pulls.longest("app:v1"); pulls == 0 {
			t.Error("image source: no pull of an image")
		}
		if !seen.ready("probed") {
			t.Errorf("probes: %+v: want that the pod is ready", seen.of("probed").Conditions)
		}
		if got := mountsOf(t, client, "db"); !seen.ready("db") || !slices.Contains(got, filepath.Join(volumes.dir, "db-0")) {
			t.Errorf("volume plugin: %s with the mounts %q", seen.of("db").Phase, got)
		}
		if status := seen.of("crash").ContainerStatuses; len(status) != 1 || status[0].RestartCount < 7 || status[0].RestartCount > 12 {
			t.Errorf("back-off of crashes: %+v: want a restart each 8 s at least, and not at once", status)
		}
		if longest, pulls := images.pulls.longest("missing:v1"); longest < 4*time.Second || longest > 7*time.Second {
			t.Errorf("back-off of pulls: %d pulls with %v between two: want 4 s, and the wait of the work", pulls, longest)
		}
		if longest, tries := volumes.setUps.longest("data"); tries <= volumes.fails || longest > 9*time.Second {
			t.Errorf("back-off of volumes: %d tries with %v between two: want 8 s at most", tries, longest)
		}

		refuse := faults.Fault{Match: faults.Match{Method: critest.StopContainer, PodUID: "probed"}, Err: grpcstatus.Error(codes.Internal, "busy"), Times: 8}
		if _, err := rt.Inject(refuse); err != nil {
			t.Fatal(err)
		}
		if err := pods.Set(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		stops, longest := rt.Journal().Pod("probed").Of(critest.StopContainer), time.Duration(0)
		for i := range stops[min(1, len(stops)):] {
			longest = max(longest, stops[i+1].Start.Sub(stops[i].Start))
		}
		if len(stops) != 9 || longest < 2*time.Second || longest > 3*time.Second {
			t.Errorf("back-off of the workers: %d stops with %v between two: want 9, and 2 s and a random part of it", len(stops), longest)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// mountsOf returns the paths on the node that are mounted into a pod's containers.
func mountsOf(t *testing.T, client *cri.Client, uid string) (paths []string) {
	t.Helper()
	list, err := client.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: map[string]string{runtime.LabelPodUID: uid}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.GetContainers() {
		status, err := client.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: c.GetId()})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range status.GetStatus().GetMounts() {
			paths = append(paths, m.GetHostPath())
		}
	}
	return paths
}

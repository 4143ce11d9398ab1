package image_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/image"
)

func TestCollectorConfig(t *testing.T) {
	client := cri.NewClient(nil)
	for field, c := range map[string]image.CollectorConfig{
		"CollectorConfig.Runtime is missing": {Leases: &image.Leases{}},
		"CollectorConfig.Leases is missing":  {Runtime: client},
		"GCPolicy.HighPercent":               {Runtime: client, Leases: &image.Leases{}, Policy: image.GCPolicy{HighPercent: 200}},
		"CollectorConfig.Keep[1] is empty":   {Runtime: client, Leases: &image.Leases{}, Keep: []string{"a", ""}},
	} {
		if _, err := image.NewCollector(c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v, want %q named", err, field)
		}
	}
}

// While there is enough room, a pass makes one call.
func TestQuietCollect(t *testing.T) {
	for _, tt := range []struct {
		used   uint64
		policy image.GCPolicy
		want   string
	}{
		{79, image.GCPolicy{}, "map[ImageFsInfo:1]"},
		{80, image.GCPolicy{}, "map[ImageFsInfo:1 ListContainers:1 ListImages:1 Status:1]"},
		{10, image.GCPolicy{MaxAge: time.Hour}, "map[ImageFsInfo:1 ListContainers:1 ListImages:1 Status:1]"},
		{99, image.GCPolicy{HighPercent: 100}, "map[]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, localImages("a"), func(c *image.CollectorConfig) { c.Policy = tt.policy })
			for range 3 {
				if got := fmt.Sprint(s.collect(tt.used).Counts()); got != tt.want {
					t.Errorf("at %d %% with %+v: %s, want %s", tt.used, tt.policy, got, tt.want)
				}
			}
		})
	}
}

// The least recently used image is removed first, whether its use was observed in a container, in the cache of pods,
// or as a lease.
func TestCollectOldestUseFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pods runtime.Cache
		s := newStore(t, localImages("listed", "leased", "known", "never"), func(c *image.CollectorConfig) { c.Pods = &pods })
		id := s.use("listed")
		s.collect(82)
		must.Get(s.client.RemoveContainer(t.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: id}))(t)
		time.Sleep(time.Hour)
		s.ensure("leased").Release()
		time.Sleep(time.Hour)
		pods.Set("u", &runtime.PodStatus{UID: "u", Containers: []runtime.ContainerStatus{{Name: "app", ImageID: idOf("known")}}}, nil, time.Now())
		s.collect(10)
		pods.Set("u", &runtime.PodStatus{UID: "u"}, nil, time.Now())
		time.Sleep(time.Hour)
		for _, want := range []string{"never listed", "leased known"} {
			if got := removals(s.collect(99)); got != want {
				t.Errorf("%q was removed, want %q", got, want)
			}
		}
	})
}

func TestCollectMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, localImages("a", "b"), func(c *image.CollectorConfig) { c.Policy.MaxAge = time.Hour })
		s.collect(10)
		time.Sleep(time.Hour)
		s.ensure("b").Release()
		time.Sleep(time.Second)
		if got := removals(s.collect(10)); got != "a" {
			t.Errorf("%q was removed", got)
		}
	})
}

// telling is a runtime that reports the image of sandboxes.
type telling struct {
	*cri.Client
	config string
}

func (r telling) Status(context.Context, *runtimeapi.StatusRequest, ...grpc.CallOption) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Info: map[string]string{"config": r.config}}, nil
}

func TestCollectKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := localImages("running", "exited", "mounted", "by-id", "leased", "pause", "kept", "id", "free")
		local = append(local, critest.Image{Name: "r.io/pinned:v1", Pinned: true})
		s := newStore(t, local, func(c *image.CollectorConfig) {
			c.Runtime = telling{c.Runtime.(*cri.Client), `{"sandboxImage": "r.io/pause:v1", "other": 1}`}
			c.Keep = []string{"r.io/kept:v1", strings.TrimPrefix(idOf("id"), "sha256:")}
		})
		s.annotations = map[string]string{runtime.AnnotationImageVolumes: "r.io/mounted:v1 " + idOf("by-id")}
		for _, name := range []string{"running", "exited"} {
			id := s.use(name)
			must.Get(s.client.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: id}))(t)
			if name == "exited" {
				must.Get(s.client.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id}))(t)
			}
		}
		leased := s.ensure("leased")
		s.collect(85)
		time.Sleep(time.Hour)
		calls, err := s.tryCollect(99)
		if got := removals(calls); got != "free" || !errors.Is(err, image.ErrDiskFull) {
			t.Errorf("%q was removed, %v", got, err)
		}
		leased.Release()
		time.Sleep(time.Hour)
		if got, _ := s.tryCollect(99); removals(got) != "leased" {
			t.Errorf("%q was removed when the lease was over", removals(got))
		}
	})
}

// If necessary, all unused images are removed, however much room there is, except images that were first listed a
// short time ago.
func TestRemoveUnused(t *testing.T) {
	for _, seen := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, localImages("a", "b", "used"), func(c *image.CollectorConfig) { c.AlwaysList = seen })
			s.use("used")
			s.collect(1)
			time.Sleep(5 * time.Minute)
			before := len(s.Journal())
			must.Do(t, s.collector.RemoveUnused(t.Context()))
			want := "a b"
			if !seen {
				want = ""
			}
			if got := removals(s.Journal().After(before)); got != want {
				t.Errorf("seen before %v: %q was removed, want %q", seen, got, want)
			}
		})
	}
}

// If the runtime does not report the image of sandboxes, no image is treated as such.
func TestCollectFromARuntimeWithoutImageUsage(t *testing.T) {
	for _, config := range []string{"", "{}", "[plugins]\nsandbox_image = 1", `{"sandboxImage": 1}`, `{"sandboxImage": "r.io/other:v1"}`} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, localImages("a"), func(c *image.CollectorConfig) { c.Runtime = telling{c.Runtime.(*cri.Client), config} })
			s.wantRemoved(85, "a")
		})
	}
}

// An image with two names, for two handlers, is listed twice but is one image: it is removed, once, if neither name is
// in use.
func TestCollectAnImageOfTwoNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, []critest.Image{
			{Name: "r.io/a:v1", ID: idOf("x"), Size: 10 * gib}, {Name: "r.io/b:v1", ID: idOf("x"), Size: 10 * gib},
		}, nil)
		id := s.use("b")
		s.collect(83)
		time.Sleep(time.Hour)
		if got, err := s.tryCollect(85); removals(got) != "" || !errors.Is(err, image.ErrDiskFull) {
			t.Errorf("%q was removed, %v", removals(got), err)
		}
		must.Get(s.client.RemoveContainer(t.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: id}))(t)
		s.wantRemoved(85, "x")
	})
}

// The fullest file system counts. A file system that cannot be read does not.
func TestCollectDisks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer error
		s := newStore(t, localImages("a"), func(c *image.CollectorConfig) {
			c.Runtime = twoDisks{c.Runtime.(*cri.Client)}
			c.Statfs = func(path string) (image.Disk, error) {
				if path == "/full" {
					return full(85), nil
				}
				return full(10), answer
			}
		})
		s.wantRemoved(0, "a")
		answer = fmt.Errorf("statfs: %w", fs.ErrNotExist)
		s.ensure("a").Release()
		s.wantRemoved(0, "a")
		answer = errors.New("input/output error")
		if calls, err := s.tryCollect(0); !errors.Is(err, answer) || calls.Count() > 0 {
			t.Errorf("%v, after %v, want error %v and at most 0", err, calls, answer)
		}
	})
}

type twoDisks struct{ *cri.Client }

func (twoDisks) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest, ...grpc.CallOption) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{
		{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/full"}}, {FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/other"}},
	}}, nil
}

// noDisk is a runtime whose images are on a filesystem that this machine has not.
type noDisk struct{ image.CollectorRuntime }

func (d noDisk) ImageFsInfo(ctx context.Context, req *runtimeapi.ImageFsInfoRequest, opts ...grpc.CallOption) (*runtimeapi.ImageFsInfoResponse, error) {
	resp, err := d.CollectorRuntime.ImageFsInfo(ctx, req, opts...)
	for _, fs := range resp.GetImageFilesystems() {
		fs.FsId.Mountpoint = "/not/of/this/machine"
	}
	return resp, err
}

// If the disk cannot be read, images are removed by their age alone.
func TestCollectBlind(t *testing.T) {
	for name, blind := range map[string]func(*image.CollectorConfig){
		"not there": func(c *image.CollectorConfig) {
			c.Statfs = func(string) (image.Disk, error) { return image.Disk{}, fs.ErrNotExist }
		},
		"not on this system": func(c *image.CollectorConfig) {
			c.Statfs = func(string) (image.Disk, error) { return image.Disk{}, errors.ErrUnsupported }
		},
		"the default, on a path that is not there": func(c *image.CollectorConfig) { c.Statfs, c.Runtime = nil, noDisk{c.Runtime} },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, localImages("a"), blind)
			if got := fmt.Sprint(s.collect(99).Counts()); got != "map[ImageFsInfo:1]" {
				t.Errorf("%s: %s, want %q", name, got, "map[ImageFsInfo:1]")
			}
			s = newStore(t, localImages("a"), func(c *image.CollectorConfig) { blind(c); c.Policy.MaxAge = time.Minute })
			s.wantRemoved(0, "a")
			s.ensure("a").Release()
			s.inject(faults.Fault{Match: faults.Match{Method: critest.ImageFsInfo}, Times: faults.Always, Err: status.Error(codes.Unimplemented, "unknown method")})
			s.wantRemoved(0, "a")
		})
	}
}

// A pass that cannot list images or containers removes nothing, and returns an error.
func TestCollectWithoutALook(t *testing.T) {
	for _, m := range []critest.Method{critest.ImageFsInfo, critest.ListImages, critest.ListContainers, critest.Status} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, localImages("a"), nil)
			s.collect(85)
			time.Sleep(time.Hour)
			s.inject(faults.Fault{Match: faults.Match{Method: m}, Err: status.Error(codes.Unknown, "busy")})
			if calls, err := s.tryCollect(99); err == nil || !strings.Contains(err.Error(), "busy") || errors.Is(err, image.ErrDiskFull) || removals(calls) != "" {
				t.Errorf("%s fails: %v, and %q is removed", m, err, removals(calls))
			}
		})
	}
}

// An image that is pulled again counts as new.
func TestCollectAnImageThatIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, localImages("a"), nil)
		s.wantRemoved(85, "a")
		if _, err := s.client.PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "r.io/a:v1"}}); err != nil {
			t.Fatal(err) // by another agent
		}
		s.wantRemoved(85, "a")
	})
}

// An image is in use, whichever of its names the runtime reports for a container.
func TestCollectFindsAnImageByEachName(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("d", 64)
	for _, c := range []*runtimeapi.Container{
		{ImageId: idOf("a")}, {ImageId: strings.TrimPrefix(idOf("a"), "sha256:")}, {ImageRef: idOf("a")}, {ImageRef: "app" + digest},
		{Image: &runtimeapi.ImageSpec{Image: "app"}}, {Image: &runtimeapi.ImageSpec{Image: "docker.io/library/app:latest"}},
		{Image: &runtimeapi.ImageSpec{Image: "app:v7" + digest}}, {Image: &runtimeapi.ImageSpec{Image: idOf("a")}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, []critest.Image{{Name: "app", ID: idOf("a"), Digest: digest[1:], Size: 10 * gib}}, func(config *image.CollectorConfig) {
				config.Runtime = using{config.Runtime.(*cri.Client), c}
			})
			s.collect(82)
			time.Sleep(time.Hour)
			if calls, _ := s.tryCollect(90); removals(calls) != "" {
				t.Errorf("removed, and in use by %v", c)
			}
		})
	}
}

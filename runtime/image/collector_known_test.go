package image_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/image"
)

// A registry's images have user names with 1 MiB, so that a list of all images exceeds a message. The agent still removes
// the images that it or an earlier agent has pulled, and then lists work again.
func TestImagesAreCollectedWhenTheListIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := critest.Config{Images: localImages("theirs", "pinned")}
		config.Images[1].Pinned = true
		for i := range 18 {
			img := localImages(fmt.Sprintf("evil%02d", i))[0]
			img.User, img.Size = strings.Repeat("x", 1<<20), 1<<20
			config.Registry = append(config.Registry, critest.RemoteImage{Image: img})
		}
		rt, conn := critest.Start(t, config)
		client, dir := cri.NewClient(conn), t.TempDir()
		agent := func() (*image.Manager, *image.Collector) {
			m := must.Get(image.New(image.Config{Settings: image.Settings{Runtime: client}, Dir: dir}))(t)
			c, err := image.NewCollector(image.CollectorConfig{Runtime: client, Leases: m.Leases(), Statfs: func(string) (image.Disk, error) { return full(99), nil }})
			must.Do(t, err)
			return m, c
		}
		first, _ := agent()
		for _, img := range config.Registry[:17] {
			got, err := first.EnsureImageExists(t.Context(), image.Request{Image: img.Name, Policy: v1.PullIfNotPresent})
			must.Do(t, err)
			got.Release()
		}
		first.Wait()
		second, c := agent()
		leased, err := second.EnsureImageExists(t.Context(), image.Request{Image: config.Registry[17].Name, Policy: v1.PullIfNotPresent})
		must.Do(t, err)
		if _, err := client.ListImages(t.Context(), &runtimeapi.ListImagesRequest{}); err == nil {
			t.Fatal("the list is not too large, and the test shows nothing")
		}
		for range 2 {
			_ = c.Collect(t.Context()) // 99 % stay full, whatever is removed
			time.Sleep(5 * time.Minute)
		}
		for i := range config.Registry {
			removed := strings.Contains(removals(rt.Journal()), fmt.Sprintf("evil%02d", i))
			if removed != (i != 17) {
				t.Errorf("image %d: removed %v", i, removed)
			}
		}
		if got := removals(rt.Journal()); strings.Contains(got, "theirs") || strings.Contains(got, "pinned") {
			t.Errorf("%q was removed, want only images of the agent while the list is too large", got)
		}
		leased.Release()
		for range 2 { // now the list has all images
			time.Sleep(5 * time.Minute)
			_ = c.Collect(t.Context())
		}
		if got := removals(rt.Journal()); !strings.Contains(got, "theirs") || !strings.Contains(got, "evil17") || strings.Contains(got, "pinned") {
			t.Errorf("%q was removed", got)
		}
	})
}

// Any other error of the list ends the pass.
func TestListThatFailsEndsThePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, localImages("a"), nil)
		s.ensure("a").Release()
		s.inject(faults.Fault{Match: faults.Match{Method: critest.ListImages}, Err: status.Error(codes.Internal, "no")})
		time.Sleep(time.Hour)
		if calls, err := s.tryCollect(99); err == nil || len(calls.Of(critest.ImageStatus)) != 0 {
			t.Errorf("%v, %v", err, calls)
		}
	})
}

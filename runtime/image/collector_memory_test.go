package image

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// The collector forgets images that no longer exist, whichever component removed them.
func TestCollectorForgetsRemovedImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, conn := critest.Start(t, critest.Config{})
		client := cri.NewClient(conn)
		m := newTestManager(t, Settings{Runtime: client})
		c, err := NewCollector(CollectorConfig{Runtime: client, Leases: m.Leases(), Statfs: func(string) (Disk, error) { return Disk{100, 18}, nil }})
		must.Do(t, err)
		for i := range 50 {
			img, err := m.EnsureImageExists(t.Context(), Request{Image: fmt.Sprintf("app:v%d", i), Policy: v1.PullIfNotPresent})
			must.Do(t, err)
			img.Release()
			m.access.mu.Lock()
			m.access.of(img.ID)
			m.access.mu.Unlock()
			time.Sleep(time.Hour)
			must.Do(t, c.Collect(t.Context()))
			if len(c.records) != 1 || len(m.Leases().used) > 3 || len(m.access.grants) > 2 {
				t.Fatalf("after %d images %d records, uses %v and %d records of pulls", i+1, len(c.records), m.Leases().used, len(m.access.grants))
			}
			if _, err := client.RemoveImage(t.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: img.ID}}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// An image that is listed once for each of its names takes time in proportion to them.
func TestImageOfManyNamesIsListedInLinearTime(t *testing.T) {
	const names = 2000
	allocations := testing.AllocsPerRun(1, func() {
		images := listed{}
		for i := range names {
			images.add(&runtimeapi.Image{Id: "i", RepoTags: []string{fmt.Sprintf("app:v%d", i)}})
		}
		images.name()
		if got := len(images["i"].names); got != names+1 {
			t.Errorf("%d names, want %d", got, names+1)
		}
	})
	if allocations > 100*names {
		t.Errorf("%.0f allocations for %d names", allocations, names)
	}
}

package image_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/image"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const gib = 1 << 30

// unused returns an image of 10 GiB that was last used a number of hours ago.
func unused(id string, hours int) image.Stored {
	return image.Stored{
		ID: id, Name: id, Size: 10 * gib, FirstSeen: now.Add(-1000 * time.Hour), LastUsed: now.Add(-time.Duration(hours) * time.Hour),
	}
}

// with returns the image with a change.
func with(s image.Stored, change func(*image.Stored)) image.Stored {
	change(&s)
	return s
}

// full returns a disk of 100 GiB with a number of GiB in use.
func full(used uint64) image.Disk {
	return image.Disk{Capacity: 100 * gib, Available: (100 - used) * gib}
}

func ids(g image.GCPlan) string {
	var all []string
	for _, r := range g.Images {
		all = append(all, r.ID)
	}
	return strings.Join(all, " ")
}

func TestDecideGarbage(t *testing.T) {
	three := []image.Stored{unused("b", 20), unused("a", 10), unused("c", 30)}
	for _, tt := range []struct {
		name   string
		images []image.Stored
		disk   image.Disk
		policy image.GCPolicy
		want   string
		free   uint64 // GiB
		short  uint64
	}{
		{"there is room", three, full(84), image.GCPolicy{}, "", 0, 0},
		{"the threshold is reached", three, full(85), image.GCPolicy{}, "c", 5, 0},
		{"oldest use first", three, full(100), image.GCPolicy{}, "c b", 20, 0},
		{"down to the low one", three, full(90), image.GCPolicy{LowPercent: 70}, "c b", 20, 0},
		{"another high one", three, full(60), image.GCPolicy{HighPercent: 60, LowPercent: 59}, "c", 1, 0},
		{"never for the disk", three, full(100), image.GCPolicy{HighPercent: 100}, "", 0, 0},
		{"a disk without measurements", three, image.Disk{}, image.GCPolicy{}, "", 0, 0},
		{"more available than there is", three, image.Disk{Capacity: 1, Available: 2}, image.GCPolicy{}, "", 0, 0},
		{"not enough", three[:1], full(100), image.GCPolicy{}, "b", 20, 10},
		{"one that was never used", []image.Stored{unused("a", 10), with(unused("z", 0), func(s *image.Stored) { s.LastUsed = time.Time{} })}, full(85), image.GCPolicy{}, "z", 5, 0},
		{"of those that were never used the one that came first", []image.Stored{
			{ID: "y", Size: gib * 9, FirstSeen: now.Add(-time.Hour)}, {ID: "z", Size: gib * 9, FirstSeen: now.Add(-2 * time.Hour)},
		}, full(85), image.GCPolicy{}, "z", 5, 0},
		{"pinned", []image.Stored{with(unused("a", 10), func(s *image.Stored) { s.Pinned = true })}, full(99), image.GCPolicy{MaxAge: 1}, "", 19, 19},
		{"in use", []image.Stored{with(unused("a", 10), func(s *image.Stored) { s.InUse = true })}, full(99), image.GCPolicy{MaxAge: 1}, "", 19, 19},
		{"it is not its turn again", []image.Stored{with(unused("a", 10), func(s *image.Stored) { s.NotBefore = now.Add(1) })}, full(99), image.GCPolicy{MaxAge: 1}, "", 19, 19},
		{"its turn again", []image.Stored{with(unused("a", 10), func(s *image.Stored) { s.NotBefore = now })}, full(85), image.GCPolicy{}, "a", 5, 0},
		{"just come", []image.Stored{{ID: "a", Size: 10 * gib, FirstSeen: now.Add(1 - 2*time.Minute)}}, full(99), image.GCPolicy{}, "", 19, 9},
		{"come long enough ago", []image.Stored{{ID: "a", Size: 10 * gib, FirstSeen: now.Add(-2 * time.Minute)}}, full(85), image.GCPolicy{}, "a", 5, 0},
		{"just used", []image.Stored{with(unused("a", 0), func(s *image.Stored) { s.LastUsed = now.Add(-time.Minute) })}, full(85), image.GCPolicy{}, "", 5, 0},
		{"another least age", []image.Stored{unused("a", 10)}, full(85), image.GCPolicy{MinAge: 11 * time.Hour}, "", 5, 0},
		{"seen in the future", []image.Stored{{ID: "a", Size: 10 * gib, FirstSeen: now.Add(time.Hour)}}, full(85), image.GCPolicy{MaxAge: 1}, "", 5, 0},
		{"too old", three, full(1), image.GCPolicy{MaxAge: 15 * time.Hour}, "c b", 0, 0},
		{"not too old yet", three, full(1), image.GCPolicy{MaxAge: 30 * time.Hour}, "", 0, 0},
		{"never used, too old since it was seen", []image.Stored{{ID: "a", FirstSeen: now.Add(-2 * time.Hour)}}, full(1), image.GCPolicy{MaxAge: time.Hour}, "a", 0, 0},
		{"an age and a disk without measurements", three, image.Disk{}, image.GCPolicy{MaxAge: 25 * time.Hour}, "c", 0, 0},
		{"the removal of an old image frees enough space", three, full(85), image.GCPolicy{MaxAge: 25 * time.Hour}, "c", 5, 0},
		{"the removal of an old image does not free enough space", three, full(95), image.GCPolicy{MaxAge: 25 * time.Hour}, "c b", 15, 0},
	} {
		before := slices.Clone(tt.images)
		g := image.DecideGC(tt.images, tt.disk, tt.policy, now)
		if ids(g) != tt.want || g.Free != tt.free*gib || g.Shortfall != tt.short*gib {
			t.Errorf("%s: %q may go for %d GiB, %d short, want %q for %d, %d short", tt.name, ids(g), g.Free/gib, g.Shortfall/gib, tt.want, tt.free, tt.short)
		}
		if !reflect.DeepEqual(tt.images, before) {
			t.Errorf("%s: the images were written to", tt.name)
		}
	}
}

func TestGarbagePolicy(t *testing.T) {
	check := func(p image.GCPolicy) error {
		_, err := image.NewCollector(image.CollectorConfig{Runtime: &cri.Client{}, Leases: &image.Leases{}, Policy: p})
		return err
	}
	for field, p := range map[string]image.GCPolicy{
		"HighPercent is 101":         {HighPercent: 101},
		"HighPercent is -1":          {HighPercent: -1},
		"LowPercent is -1":           {LowPercent: -1},
		"LowPercent is 85":           {LowPercent: 85},
		"LowPercent is 80":           {HighPercent: 70},
		"MinAge is negative":         {MinAge: -1},
		"MaxAge is negative":         {MaxAge: -1},
		"less than HighPercent, 100": {HighPercent: 100, LowPercent: 100},
	} {
		if err := check(p); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v, want %q", err, field)
		}
	}
	for _, p := range []image.GCPolicy{{}, {HighPercent: 100}, {HighPercent: 2, LowPercent: 1}} {
		if err := check(p); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func randomImages(r *rand.Rand) []image.Stored {
	var all []image.Stored
	for i := range r.IntN(12) {
		ago := func() time.Time { return now.Add(time.Duration(r.IntN(600)-590) * 10 * time.Second) }
		s := image.Stored{ID: fmt.Sprintf("i%d", i), Size: uint64(r.IntN(10)) * gib, FirstSeen: ago(), Pinned: r.IntN(6) == 0, InUse: r.IntN(6) == 0}
		if r.IntN(3) > 0 {
			s.LastUsed = ago()
		}
		if r.IntN(6) == 0 {
			s.NotBefore = ago()
		}
		all = append(all, s)
	}
	return all
}

// The properties of every decision: only removable images are removed, in order, no more and no fewer than necessary, and
// the order of the list has no effect.
func TestDecideGarbageAtRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	removed, short := 0, 0
	for range 20_000 {
		stored, disk := randomImages(r), full(uint64(r.IntN(101)))
		p := image.GCPolicy{HighPercent: 2 + r.IntN(99), MinAge: time.Duration(r.IntN(20)) * time.Minute}
		p.LowPercent = 1 + r.IntN(p.HighPercent-1)
		if r.IntN(2) == 0 {
			p.MaxAge = time.Duration(1+r.IntN(100)) * time.Minute
		}
		g := image.DecideGC(stored, disk, p, now)
		checkGarbage(t, stored, disk, p, g)
		r.Shuffle(len(stored), func(i, j int) { stored[i], stored[j] = stored[j], stored[i] })
		if again := image.DecideGC(stored, disk, p, now); !reflect.DeepEqual(again, g) {
			t.Fatalf("in another order %v\nwant %v", again, g)
		}
		removed += len(g.Images)
		if g.Shortfall > 0 {
			short++
		}
		if t.Failed() {
			t.Fatalf("%+v of %+v\n%+v, %+v", g, stored, disk, p)
		}
	}
	if removed < 10_000 || short < 1000 {
		t.Errorf("%d images went, %d times there were too few, which shows little", removed, short)
	}
}

func checkGarbage(t *testing.T, stored []image.Stored, disk image.Disk, p image.GCPolicy, g image.GCPlan) {
	t.Helper()
	idle := func(s image.Stored) time.Duration { return min(now.Sub(s.FirstSeen), now.Sub(s.LastUsed)) }
	minAge := p.MinAge
	if minAge == 0 {
		minAge = 2 * time.Minute
	}
	may := func(s image.Stored) bool {
		return !s.Pinned && !s.InUse && !now.Before(s.NotBefore) && idle(s) >= minAge
	}
	old := func(s image.Stored) bool { return p.MaxAge > 0 && idle(s) > p.MaxAge }
	var freed uint64
	goes := map[string]bool{}
	for i, r := range g.Images {
		switch {
		case !may(r.Stored):
			t.Errorf("%s goes", r.ID)
		case goes[r.ID]:
			t.Errorf("%s goes twice", r.ID)
		case (r.Reason == image.Expired) != old(r.Stored):
			t.Errorf("%s goes: %v", r.ID, r.Reason)
		case r.Reason == image.DiskFull && freed >= g.Free:
			t.Errorf("%s goes, and there is room", r.ID)
		case i > 0 && r.Reason == g.Images[i-1].Reason && r.LastUsed.Before(g.Images[i-1].LastUsed):
			t.Errorf("%s goes after %s", r.ID, g.Images[i-1].ID)
		}
		goes[r.ID] = true
		freed += r.Size
	}
	for _, s := range stored {
		if may(s) && !goes[s.ID] && (old(s) || freed < g.Free) {
			t.Errorf("%s stays, although it is old, or its space is needed", s.ID)
		}
		for _, r := range g.Images {
			if may(s) && !goes[s.ID] && r.Reason == image.DiskFull && s.LastUsed.Before(r.LastUsed) {
				t.Errorf("%s goes, and %s, which was used before it, stays", r.ID, s.ID)
			}
		}
	}
	used := disk.Capacity - disk.Available
	if full := used >= disk.Capacity/100*uint64(p.HighPercent) && p.HighPercent < 100; full != (g.Free > 0) {
		t.Errorf("%d bytes are to be freed", g.Free)
	}
	if g.Free > 0 && used-g.Free != disk.Capacity/100*uint64(p.LowPercent) {
		t.Errorf("%d bytes are to be freed, which is not down to the threshold", g.Free)
	}
	if g.Shortfall > g.Free || g.Shortfall > 0 && freed >= g.Free {
		t.Errorf("%d bytes are short", g.Shortfall)
	}
}

func BenchmarkDecideGarbage(b *testing.B) {
	var stored []image.Stored
	for i := range 100 {
		stored = append(stored, unused(fmt.Sprint(i), i))
	}
	b.ReportAllocs()
	for b.Loop() {
		image.DecideGC(stored, full(90), image.GCPolicy{}, now)
	}
}

func ExampleDecideGC() {
	stored := []image.Stored{
		{ID: "sha256:1", Name: "registry.k8s.io/pause:3.10", Size: 1 << 20, Pinned: true},
		{ID: "sha256:2", Name: "app:v3", Size: 3 << 30, InUse: true},
		{ID: "sha256:3", Name: "app:v2", Size: 3 << 30, LastUsed: now.Add(-time.Hour)},
		{ID: "sha256:4", Name: "app:v1", Size: 3 << 30, LastUsed: now.Add(-48 * time.Hour)},
	}
	disk := image.Disk{Capacity: 40 << 30, Available: 4 << 30}
	garbage := image.DecideGC(stored, disk, image.GCPolicy{LowPercent: 84}, now)
	fmt.Printf("to be freed: %d MiB\n", garbage.Free>>20)
	for _, removal := range garbage.Images {
		fmt.Println(removal)
	}
	// Output:
	// to be freed: 2457 MiB
	// remove app:v1: disk full
}

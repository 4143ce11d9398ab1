package image

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/podsync/podsync/internal/order"
)

// withDefaults returns the policy with a kubelet's defaults.
func withDefaults(p GCPolicy) GCPolicy {
	p.HighPercent = cmp.Or(p.HighPercent, 85)
	p.LowPercent = cmp.Or(p.LowPercent, 80)
	p.MinAge = cmp.Or(p.MinAge, 2*time.Minute)
	return p
}

// validate returns an error that names a field that is beyond its range.
func validate(p GCPolicy) error {
	given := p
	p = withDefaults(p)
	switch {
	case p.HighPercent < 1 || p.HighPercent > 100:
		return fmt.Errorf("GCPolicy.HighPercent is %d, want 1 to 100", given.HighPercent)
	case p.LowPercent < 1 || p.LowPercent >= p.HighPercent:
		return fmt.Errorf("GCPolicy.LowPercent is %d, want 1 or more, and less than HighPercent, %d", p.LowPercent, p.HighPercent)
	case p.MinAge < 0:
		return fmt.Errorf("GCPolicy.MinAge is negative: %v", p.MinAge)
	case p.MaxAge < 0:
		return fmt.Errorf("GCPolicy.MaxAge is negative: %v", p.MaxAge)
	}
	return nil
}

// off reports whether no image is ever removed.
func off(p GCPolicy) bool { return p.HighPercent == 100 && p.MaxAge == 0 }

// Disk is the usage of a file system. The zero Disk means unknown; it is never full.
type Disk struct {
	// Capacity and Available are in bytes. Available excludes the space reserved for the superuser.
	Capacity, Available uint64
}

func (d Disk) used() uint64 { return d.Capacity - min(d.Available, d.Capacity) }

// beyond returns how many used bytes exceed a percentage, and whether the percentage is reached at all.
func (d Disk) beyond(percent int) (bytes uint64, reached bool) {
	mark := d.Capacity / 100 * uint64(percent)
	if d.Capacity == 0 || d.used() < mark {
		return 0, false
	}
	return d.used() - mark, true
}

// Stored is an image on the node.
type Stored struct {
	// ID is the runtime's identifier for the image, Name is a name it has.
	ID, Name string
	// Size is in bytes, as reported by the runtime. Layers that images share count in each.
	Size uint64
	// Pinned means that the image is kept even if unused: it is pinned by the runtime or the
	// configuration, or it is the sandbox image.
	Pinned bool
	// InUse means that a container, running or not, has the image or is about to have it.
	InUse bool
	// FirstSeen is when a pass first listed the image.
	FirstSeen time.Time
	// LastUsed is when it was last seen to be in use, zero if it never was.
	LastUsed time.Time
	// NotBefore is when its removal may be retried after a failure.
	NotBefore time.Time
}

// idleSince returns the time since which the image is known to be unused.
func (s *Stored) idleSince() time.Time {
	if s.LastUsed.After(s.FirstSeen) {
		return s.LastUsed
	}
	return s.FirstSeen
}

// RemovalReason is the reason for which an image is removed.
type RemovalReason uint8

// The reasons.
const (
	// DiskFull: HighPercent is reached.
	DiskFull RemovalReason = iota
	// Expired: it was not used for longer than MaxAge.
	Expired
)

// String returns the reason as text.
func (r RemovalReason) String() string {
	if r == Expired {
		return "not used for long"
	}
	return "disk full"
}

// Removal is one image's removal.
type Removal struct {
	Stored
	Reason RemovalReason
}

// String describes the removal and its reason.
func (r Removal) String() string { return fmt.Sprintf("remove %s: %v", r.Name, r.Reason) }

// GCPlan lists the images to remove from a node.
type GCPlan struct {
	// Images are the images to remove, in this order.
	Images []Removal
	// Free is how many bytes to free.
	Free uint64
	// Shortfall is what stays, in bytes, from Free in use even if all Images and all images that are
	// still too young are removed.
	Shortfall uint64
}

// DecideGC returns the images to remove: those unused for longer than MaxAge and, if the disk is
// too full, as many more as necessary by the sizes that the runtime reports, the least recently
// used first. It is a pure function, and does not depend on the images' order.
func DecideGC(images []Stored, disk Disk, p GCPolicy, now time.Time) GCPlan {
	p = withDefaults(p)
	g := GCPlan{Free: excess(p, disk)}
	var left []Stored
	var freed, young uint64
	for _, s := range oldestFirst(images) {
		switch idle := now.Sub(s.idleSince()); {
		case s.Pinned || s.InUse || now.Before(s.NotBefore):
		case idle < p.MinAge:
			young += s.Size
		case p.MaxAge > 0 && idle > p.MaxAge:
			g.Images = append(g.Images, Removal{*s, Expired})
			freed += s.Size
		default:
			left = append(left, *s)
		}
	}
	for _, s := range left {
		if freed >= g.Free {
			break
		}
		g.Images = append(g.Images, Removal{s, DiskFull})
		freed += s.Size
	}
	g.Shortfall = g.Free - min(g.Free, freed+young)
	return g
}

// decideUnused returns all unused images that are old enough to remove.
func decideUnused(images []Stored, p GCPolicy, now time.Time) GCPlan {
	p.HighPercent = 1
	g := DecideGC(images, Disk{Capacity: math.MaxUint64}, p, now)
	return GCPlan{Images: g.Images} // without required space
}

// excess returns how many bytes must become free.
func excess(p GCPolicy, disk Disk) uint64 {
	if _, full := disk.beyond(p.HighPercent); !full || p.HighPercent == 100 {
		return 0
	}
	bytes, _ := disk.beyond(p.LowPercent)
	return bytes
}

// mustLook reports whether images must be listed: some may have to be removed now or soon, and
// their last use must be known then.
func mustLook(p GCPolicy, disk Disk) bool {
	_, near := disk.beyond(p.LowPercent)
	return p.MaxAge > 0 || near
}

func oldestFirst(images []Stored) []*Stored {
	return order.By(images, func(a, b *Stored) int {
		return cmp.Or(a.LastUsed.Compare(b.LastUsed), a.FirstSeen.Compare(b.FirstSeen), cmp.Compare(a.ID, b.ID))
	})
}

package image

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Leases protects images that are about to be used from removal: from the moment when an image is
// found until a container that uses it is listed, nothing else shows that it is needed (kubernetes
// #123631).
//
// A Manager takes a lease for every image that it returns; every component that removes images must
// do so in Remove. The zero Leases is ready to use. All methods may be called concurrently.
type Leases struct {
	mu       sync.Mutex
	held     map[string]int           // names and identifiers, with their lease counts
	removing map[string]chan struct{} // names and identifiers, closed at the removal's end
	watching []observer
	used     uses
}

// An observer learns which images exist. A Manager's credential records are one.
type observer interface {
	// removed is called after each removal, before a lease is granted.
	removed(id string, names []string)
	// known returns the IDs for images that exist, or have existed.
	known() []string
	// listed is called with the IDs in a full image list, and the time before it was requested.
	listed(ids map[string]bool, began time.Time)
}

// Lease keeps one image from being removed until it is released.
type Lease struct {
	leases *Leases
	names  []string // guarded by leases.mu, some twice
}

// Acquire takes a lease for an image by its name or identifier. While that image is being removed,
// Acquire waits until the removal ends or ctx ends. A name with tag and digest leases both forms,
// because runtimes list them separately.
func (l *Leases) Acquire(ctx context.Context, name string) (*Lease, error) {
	names := []string{normal(name)}
	if tag, ok := tagged(name); ok {
		names = append(names, tag)
	}
	lease := &Lease{leases: l}
	for _, name := range names {
		if _, err := lease.extend(ctx, name); err != nil {
			lease.Release()
			return nil, err
		}
	}
	return lease, nil
}

// Remove calls remove, unless a lease for any image name is held or the image is already being
// removed; then it returns false. While remove runs, no lease for the image is granted.
func (l *Leases) Remove(ctx context.Context, img *runtimeapi.Image, remove func(context.Context) error) (removed bool, err error) {
	names := imageNames(img)
	done := l.beginRemoval(names)
	if done == nil {
		return false, nil
	}
	defer done()
	if err := remove(ctx); err != nil {
		return false, err
	}
	for _, o := range l.observers() {
		o.removed(img.GetId(), names)
	}
	return true, nil
}

// listed passes a full image list to the observers.
func (l *Leases) listed(ids map[string]bool, began time.Time) {
	for _, o := range l.observers() {
		o.listed(ids, began)
	}
}

// known returns images, by name and ID, that pods use or have used, and those that the observers know.
func (l *Leases) known() (names []string) {
	for _, o := range l.observers() {
		names = append(names, o.known()...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	names = slices.AppendSeq(names, maps.Keys(l.used))
	names = slices.AppendSeq(names, maps.Keys(l.held))
	slices.Sort(names)
	return slices.Compact(names)
}

func (l *Leases) observe(o observer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watching = append(l.watching, o)
}

func (l *Leases) observers() []observer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.watching)
}

// Held reports whether a lease is held for the image under any name.
func (l *Leases) Held(img *runtimeapi.Image) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.anyHeld(imageNames(img))
}

// Release ends the lease. Only the first call has an effect. A nil Lease's Release does nothing.
func (l *Lease) Release() {
	if l == nil {
		return
	}
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	l.leases.used.note(l.names, time.Now())
	for _, name := range l.names {
		if l.leases.held[name]--; l.leases.held[name] == 0 {
			delete(l.leases.held, name)
		}
	}
	l.names = nil
}

// extend adds a name to the lease. It reports whether it waited for a removal, after which the
// image may no longer exist.
func (l *Lease) extend(ctx context.Context, name string) (waited bool, err error) {
	for {
		over := l.leases.hold(l, name)
		if over == nil {
			return waited, nil
		}
		waited = true
		select {
		case <-over:
		case <-ctx.Done():
			return waited, ctx.Err()
		}
	}
}

// hold adds a name to a lease. If the image is being removed, it returns a channel that is closed
// when the removal ends.
func (l *Leases) hold(lease *Lease, name string) (over <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if over, ok := l.removing[name]; ok {
		return over
	}
	if l.held == nil {
		l.held = map[string]int{}
	}
	l.held[name]++
	lease.names = append(lease.names, name)
	return nil
}

// beginRemoval returns the function that ends the removal, nil if the removal must not begin.
func (l *Leases) beginRemoval(names []string) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.anyHeld(names) || l.anyRemoving(names) {
		return nil
	}
	if l.removing == nil {
		l.removing = map[string]chan struct{}{}
	}
	over := make(chan struct{})
	for _, name := range names {
		l.removing[name] = over
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, name := range names {
			delete(l.removing, name)
		}
		close(over)
	}
}

func (l *Leases) anyHeld(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return l.held[name] > 0 })
}

func (l *Leases) anyRemoving(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return l.removing[name] != nil })
}

// imageNames returns an image's names.
func imageNames(img *runtimeapi.Image) []string {
	names := []string{normal(img.GetId())}
	for _, name := range slices.Concat(img.GetRepoTags(), img.GetRepoDigests()) {
		names = append(names, normal(name))
	}
	return names
}

// namesOf returns all names for an image that was requested by ref.
func namesOf(img *runtimeapi.Image, ref imageRef) []string {
	names := append(imageNames(img), normal(ref.full))
	slices.Sort(names)
	return slices.Compact(names)
}

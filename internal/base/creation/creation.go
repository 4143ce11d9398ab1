// Package creation says what follows when the answer to a creation was lost: the
// runtime was asked for a sandbox or a container by its name, and whether it has made it
// nobody knows. It may have, it may yet, or it may keep the name for nothing
// (containerd #9947, cri-o #7010, kubernetes #139670).
//
// One rule serves both: look at what is there; take over what was asked for; remove
// whatever else has the name, or all of it if whoever asked has gone; and with nothing
// there ask for the same attempt again later, until its name was refused too often.
package creation

import (
	"context"
	"errors"

	"github.com/podsync/podsync/runtime/cri"
)

// Lookup looks at what has come of a creation.
type Lookup[T any] struct {
	// List returns what the creation has made, or may have, and nothing else.
	List func(ctx context.Context) ([]*T, error)
	// Fits returns the one of these that was asked for, nil if none was.
	Fits func(listed []*T) *T
	// Remove removes these, but for the one kept, which may be nil.
	Remove func(ctx context.Context, listed []*T, kept *T) error
}

// Found is what a Lookup has come to.
type Found[T any] struct {
	// Adopted is what was asked for, nil if it is not there, or is not wanted any more.
	Adopted *T
	// Removed: something else had the name and has it no more, so that it pays to ask
	// again for what is wanted.
	Removed bool
	// Remains is why something could not be removed beside what was adopted.
	Remains error
}

// Resolve looks, and removes what is not to be there. Whoever asked may have gone
// meanwhile, which wanted is asked after the look: then nothing is adopted, and ctx is not
// to be the one that has ended. The error is that of the look, or of a removal where
// nothing was adopted.
func (l Lookup[T]) Resolve(ctx context.Context, wanted func() bool) (Found[T], error) {
	listed, err := l.List(ctx)
	if err != nil {
		return Found[T]{}, err
	}
	var adopted *T
	isWanted := wanted()
	if isWanted {
		adopted = l.Fits(listed)
	}
	err = l.Remove(ctx, listed, adopted)
	switch {
	case adopted != nil:
		return Found[T]{Adopted: adopted, Remains: err}, nil
	case err != nil:
		return Found[T]{}, err
	}
	return Found[T]{Removed: isWanted && len(listed) > 0}, nil
}

// Refusals counts how often the name of one attempt was refused with nothing listed that
// has it. The zero value has counted none.
type Refusals int

// Count counts one, and reports whether the attempt is to be given up: as many as that
// are enough. Then it counts from the start again, for the next attempt.
func (r *Refusals) Count(enough int) (giveUp bool) {
	if *r++; int(*r) < enough {
		return false
	}
	*r = 0
	return true
}

// NameTaken reports whether an error says that a name is in use.
func NameTaken(err error) bool {
	return errors.Is(err, cri.ErrNameReserved) || errors.Is(err, cri.ErrAlreadyExists)
}

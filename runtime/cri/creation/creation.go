// Package creation resolves a create call whose response was lost. The runtime may have created the sandbox or
// container with the requested name, may still create it, or may keep the name reserved without creating anything
// (containerd #9947, cri-o #7010, kubernetes #139670).
//
// One rule covers all cases. List the objects with the name. Adopt the requested object, and remove all others; if the
// object is no longer needed, remove all. If no object exists, retry the same attempt later, until the name has been
// rejected too often.
package creation

import (
	"context"
	"errors"

	"github.com/podsync/podsync/runtime/cri"
)

// Lookup finds a create call's result.
type Lookup[T any] struct {
	// List returns the objects that the call has created, or may have created.
	List func(ctx context.Context) ([]*T, error)
	// Fits returns the listed object that was requested, nil if there is none.
	Fits func(listed []*T) *T
	// Remove removes all listed objects except kept, which may be nil.
	Remove func(ctx context.Context, listed []*T, kept *T) error
}

// Found is the result of a Lookup.
type Found[T any] struct {
	// Adopted is the requested object, nil if it does not exist or is no longer wanted.
	Adopted *T
	// Removed means that another object had the name and was removed, so a retry may succeed.
	Removed bool
	// Remains is the error of a removal next to an adopted object.
	Remains error
}

// Resolve lists the objects and removes those that must not exist. It calls wanted after the list:
// if that returns false, nothing is adopted. So ctx must not be the request's context, which may
// have ended. It returns the error of the list, or of a removal if nothing was adopted.
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

// Refusals counts how often one attempt's name was rejected although no listed object has it. The zero value is a
// count of 0.
type Refusals int

// Count adds one refusal, and reports whether there are enough of them to give up the attempt. It then restarts at 0
// for the next attempt.
func (r *Refusals) Count(enough int) (giveUp bool) {
	if *r++; int(*r) < enough {
		return false
	}
	*r = 0
	return true
}

// NameTaken reports whether an error means that a name is in use.
func NameTaken(err error) bool {
	return errors.Is(err, cri.ErrNameReserved) || errors.Is(err, cri.ErrAlreadyExists)
}

package creation_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/creation"
)

var errBroken = errors.New("broken")

// The requested object is adopted, and all others are removed. If the object is no longer needed, it is removed, too.
func TestResolve(t *testing.T) {
	for name, tt := range map[string]struct {
		listed          []string
		gone            bool // the requester
		listErr, rmErr  error
		adopted         string
		removed         []string
		remains, failed bool
		again           bool
	}{
		"nothing":            {},
		"it is there":        {listed: []string{"mine"}, adopted: "mine"},
		"something else is":  {listed: []string{"other"}, removed: []string{"other"}, again: true},
		"both are":           {listed: []string{"other", "mine"}, adopted: "mine", removed: []string{"other"}},
		"it is not wanted":   {listed: []string{"mine"}, gone: true, removed: []string{"mine"}},
		"no look":            {listErr: errBroken, failed: true},
		"no removal":         {listed: []string{"other"}, rmErr: errBroken, removed: []string{"other"}, failed: true},
		"no removal, but it": {listed: []string{"other", "mine"}, rmErr: errBroken, adopted: "mine", removed: []string{"other"}, remains: true},
	} {
		var removed []string
		found, err := creation.Lookup[string]{
			List: func(context.Context) (all []*string, err error) {
				for _, s := range tt.listed {
					all = append(all, &s)
				}
				return all, tt.listErr
			},
			Fits: func(all []*string) *string {
				if i := slices.IndexFunc(all, func(s *string) bool { return *s == "mine" }); i >= 0 {
					return all[i]
				}
				return nil
			},
			Remove: func(_ context.Context, all []*string, kept *string) error {
				for _, s := range all {
					if s != kept {
						removed = append(removed, *s)
					}
				}
				return tt.rmErr
			},
		}.Resolve(t.Context(), func() bool { return !tt.gone })
		adopted := ""
		if found.Adopted != nil {
			adopted = *found.Adopted
		}
		if adopted != tt.adopted || !slices.Equal(removed, tt.removed) || found.Removed != tt.again || (found.Remains != nil) != tt.remains || (err != nil) != tt.failed {
			t.Errorf("%s: adopted %q, removed %q, %+v, %v; want %+v", name, adopted, removed, found, err, tt)
		}
	}
}

func TestRefusals(t *testing.T) {
	var r creation.Refusals
	for i, want := range []bool{false, false, true, false, false, true} {
		if got := r.Count(3); got != want {
			t.Errorf("refusal %d gives up: %v, want %v", i+1, got, want)
		}
	}
}

func TestNameTaken(t *testing.T) {
	for text, want := range map[string]bool{`name "a" is reserved for "b"`: true, "no space left on device": false} {
		if err := cri.Classify(status.Error(codes.Unknown, text)); creation.NameTaken(err) != want {
			t.Errorf("%v is a name taken: %v, want %v", err, !want, want)
		}
	}
}

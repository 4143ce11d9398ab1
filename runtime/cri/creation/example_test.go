package creation_test

import (
	"context"
	"fmt"

	"github.com/podsync/podsync/runtime/cri/creation"
)

// The answer of a creation was lost. The runtime has two objects with its name; the requested one is adopted, and the other
// one removed.
func ExampleLookup() {
	type object struct{ ID, hash string }
	onNode := []*object{{"1", "old"}, {"2", "requested"}}
	lookup := creation.Lookup[object]{
		List: func(context.Context) ([]*object, error) { return onNode, nil },
		Fits: func(listed []*object) *object {
			for _, o := range listed {
				if o.hash == "requested" {
					return o
				}
			}
			return nil
		},
		Remove: func(_ context.Context, listed []*object, kept *object) error {
			for _, o := range listed {
				if o != kept {
					fmt.Println("removed", o.ID)
				}
			}
			return nil
		},
	}
	found, err := lookup.Resolve(context.Background(), func() bool { return true })
	fmt.Println("adopted", found.Adopted.ID, err)
	// Output:
	// removed 1
	// adopted 2 <nil>
}

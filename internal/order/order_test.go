package order_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/podsync/podsync/internal/order"
)

func TestSorted(t *testing.T) {
	list := []int{3, 1, 2}
	ascending := func(a, b *int) int { return cmp.Compare(*a, *b) }
	if got := order.Sorted(list, ascending); !slices.Equal(got, []int{1, 2, 3}) || !slices.Equal(list, []int{3, 1, 2}) {
		t.Errorf("%v of %v, want 1 2 3 of 3 1 2", got, list)
	}
	if got := order.By(list, ascending); got[0] != &list[1] {
		t.Error("the first pointer is not that of the smallest element")
	}
	if got := order.Sorted(nil, ascending); got != nil {
		t.Errorf("%v of no elements, want nil", got)
	}
}

// Package order sorts slices of structs by pointers to their elements: a sort of the elements themselves compiles to much code
// for each type.
package order

import "slices"

// By returns pointers to a slice's elements, in the order of compare. Equal elements keep their order. It does not modify the
// slice.
func By[T any](list []T, compare func(a, b *T) int) []*T {
	sorted := make([]*T, len(list))
	for i := range list {
		sorted[i] = &list[i]
	}
	slices.SortStableFunc(sorted, compare)
	return sorted
}

// Sorted returns a slice's elements in the order of compare, nil for no elements. It does not modify the slice.
func Sorted[T any](list []T, compare func(a, b *T) int) (sorted []T) {
	for _, p := range By(list, compare) {
		sorted = append(sorted, *p)
	}
	return sorted
}

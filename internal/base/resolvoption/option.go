// Package resolvoption sets options of a resolver, of which each name counts once.
package resolvoption

import (
	"slices"
	"strings"
)

// Set sets an option such as "ndots:5", in the place of an earlier one of that name if there is one. It may write to
// options.
func Set(options []string, option string) []string {
	same := slices.IndexFunc(options, func(earlier string) bool { return nameOf(earlier) == nameOf(option) })
	if same < 0 {
		return append(options, option)
	}
	options[same] = option
	return options
}

func nameOf(option string) string {
	name, _, _ := strings.Cut(option, ":")
	return name
}

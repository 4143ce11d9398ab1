package sandbox

import (
	"slices"
	"strings"
)

// setOption sets an option such as "ndots:5". It replaces an earlier option with that name. It may modify options.
func setOption(options []string, option string) []string {
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

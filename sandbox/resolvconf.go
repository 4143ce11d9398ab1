package sandbox

import (
	"slices"
	"strings"
)

// ParseResolvConf returns the servers, searches and options in a node's
// resolv.conf; see resolv.conf(5). If there are several search lines, the last
// one counts; an option given again replaces the first. A domain line is passed
// over, as a kubelet does, and so is a line that is not known.
func ParseResolvConf(text string) NodeDNS {
	var node NodeDNS
	for line := range strings.Lines(text) {
		keyword, values := resolvConfLine(line)
		switch keyword {
		case "nameserver":
			node.Servers = append(node.Servers, values[0])
		case "search":
			node.Searches = unrooted(values)
		case "options":
			node.Options = withOptions(node.Options, values)
		}
	}
	return node
}

// resolvConfLine returns no keyword for a comment and a line without a value.
func resolvConfLine(line string) (keyword string, values []string) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return "", nil
	}
	return fields[0], fields[1:]
}

// unrooted removes the dot that ends a domain, so that a domain written both ways
// counts as one. The root alone keeps it.
func unrooted(domains []string) []string {
	list := slices.Clone(domains)
	for i, d := range list {
		if d != "." {
			list[i] = strings.TrimSuffix(d, ".")
		}
	}
	return list
}

func withOptions(options, more []string) []string {
	for _, o := range more {
		options = setOption(options, o)
	}
	return options
}

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

package sandbox

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A resolver's limits. The first is glibc's MAXNS; the others are the API's limits for a pod's
// dnsConfig (KEP-2595).
const (
	maxNameservers = 3
	maxSearches    = 32
	// maxSearchLine is the maximum length for all search domains, with a space between
	// them.
	maxSearchLine = 2048
	// maxSearch is the maximum length for a domain: some resolvers abort on a longer
	// one.
	maxSearch = validation.DNS1123SubdomainMaxLength
)

// DNSWarningKind is a [DNSWarning]'s kind.
type DNSWarningKind uint8

const (
	// ClusterDNSMissing: the pod requests cluster DNS, the node has none, and the pod got the
	// node's configuration.
	ClusterDNSMissing DNSWarningKind = iota + 1
	// NameserversCut: some nameservers were left out.
	NameserversCut
	// SearchesCut: some search domains were left out.
	SearchesCut
)

// DNSWarning reports that a resolver configuration differs from the pod's request.
type DNSWarning struct {
	Kind DNSWarningKind
	// Applied is the remaining list, Omitted the removed part, both in the original order. Both are
	// nil for ClusterDNSMissing.
	Applied, Omitted []string
}

// Reason returns a kubelet's event reason for the warning.
func (w DNSWarning) Reason() string {
	if w.Kind == ClusterDNSMissing {
		return "MissingClusterDNS"
	}
	return "DNSConfigForming"
}

// String returns the warning as the sentence that a kubelet records.
func (w DNSWarning) String() string {
	switch w.Kind {
	case ClusterDNSMissing:
		return `kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.`
	case NameserversCut:
		return "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: " + strings.Join(w.Applied, " ")
	case SearchesCut:
		return "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: " + strings.Join(w.Applied, " ")
	}
	return "unknown warning"
}

// cut removes what exceeds the limits from config.
func cut(config *runtimeapi.DNSConfig) []DNSWarning {
	var warnings []DNSWarning
	if all := config.Servers; len(all) > maxNameservers {
		config.Servers = slices.Clone(all[:maxNameservers])
		warnings = append(warnings, DNSWarning{NameserversCut, slices.Clone(config.Servers), all[maxNameservers:]})
	}
	all := slices.Clone(config.Searches)
	config.Searches = fitting(config.Searches)
	if len(config.Searches) < len(all) {
		omitted := slices.DeleteFunc(all, func(s string) bool { return slices.Contains(config.Searches, s) })
		warnings = append(warnings, DNSWarning{SearchesCut, slices.Clone(config.Searches), omitted})
	}
	return warnings
}

// fitting returns the first search domains that are not too long, as many as one line holds.
func fitting(searches []string) []string {
	if len(searches) > maxSearches {
		searches = searches[:maxSearches]
	}
	searches = slices.DeleteFunc(searches, func(s string) bool { return len(s) > maxSearch })
	line := -1 // no space before the first
	for i, s := range searches {
		line += 1 + len(s)
		if line > maxSearchLine {
			return searches[:i]
		}
	}
	return searches
}

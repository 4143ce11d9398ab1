package sandbox_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/sandbox"
)

var (
	clusterNode = sandbox.NodeDNS{
		Servers:        []string{"192.0.2.1"},
		Searches:       []string{"example.org"},
		Options:        []string{"timeout:2"},
		ClusterServers: []string{"10.96.0.10"},
		ClusterDomain:  "cluster.local",
	}
	clusterSearches = []string{"ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.org"}
)

type dnsLists struct{ servers, searches, options []string }

func TestDNSPolicies(t *testing.T) {
	cluster := dnsLists{[]string{"10.96.0.10"}, clusterSearches, []string{"ndots:5"}}
	node := dnsLists{[]string{"192.0.2.1"}, []string{"example.org"}, []string{"timeout:2"}}
	for name, tc := range map[string]struct {
		spec v1.PodSpec
		want dnsLists
	}{
		"ClusterFirst":               {v1.PodSpec{DNSPolicy: v1.DNSClusterFirst}, cluster},
		"none is ClusterFirst":       {v1.PodSpec{}, cluster},
		"ClusterFirst, host network": {v1.PodSpec{DNSPolicy: v1.DNSClusterFirst, HostNetwork: true}, node},
		"ClusterFirstWithHostNet":    {v1.PodSpec{DNSPolicy: v1.DNSClusterFirstWithHostNet, HostNetwork: true}, cluster},
		"Default":                    {v1.PodSpec{DNSPolicy: v1.DNSDefault}, node},
		"None":                       {v1.PodSpec{DNSPolicy: v1.DNSNone}, dnsLists{}},
		"None with dnsConfig": {v1.PodSpec{DNSPolicy: v1.DNSNone, DNSConfig: &v1.PodDNSConfig{
			Nameservers: []string{"1.1.1.1"}, Searches: []string{"a", "a"}, Options: []v1.PodDNSConfigOption{{Name: "edns0"}}}},
			dnsLists{[]string{"1.1.1.1"}, []string{"a"}, []string{"edns0"}}},
		"dnsConfig is added": {v1.PodSpec{DNSConfig: &v1.PodDNSConfig{
			Nameservers: []string{"1.1.1.1", "10.96.0.10"}, Searches: []string{"example.org", "b"},
			Options: []v1.PodDNSConfigOption{{Name: "debug", Value: ptr("")}, {Name: "ndots", Value: ptr("1")}}}},
			dnsLists{[]string{"10.96.0.10", "1.1.1.1"}, append(slices.Clone(clusterSearches), "b"), []string{"ndots:1", "debug"}}},
	} {
		got, warnings, err := sandbox.GetPodDNS(named("p", tc.spec), clusterNode)
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: warnings %v, error %v", name, warnings, err)
			continue
		}
		if lists := (dnsLists{got.Servers, got.Searches, got.Options}); !reflect.DeepEqual(lists, tc.want) {
			t.Errorf("%s: %v, want %v", name, lists, tc.want)
		}
	}
}

// A server with a zone is reached through an interface of the node (kubernetes #140844).
func TestS8_ServersWithAZoneAreForTheNodesNetwork(t *testing.T) {
	node := sandbox.NodeDNS{Servers: []string{"fe80::1%eth0", "192.0.2.1", "fe80::2%3", "192.0.2.2", "fe80::3", "169.254.20.10"}}
	kept := slices.Clone(node.Servers)
	for name, tc := range map[string]struct {
		spec v1.PodSpec
		want []string
	}{
		"Default":                         {v1.PodSpec{DNSPolicy: v1.DNSDefault}, []string{"192.0.2.1", "192.0.2.2", "fe80::3"}},
		"ClusterFirst without a cluster":  {v1.PodSpec{}, []string{"192.0.2.1", "192.0.2.2", "fe80::3"}},
		"the node's network":              {v1.PodSpec{DNSPolicy: v1.DNSDefault, HostNetwork: true}, kept[:3]},
		"the pod's own choice is its own": {v1.PodSpec{DNSPolicy: v1.DNSNone, DNSConfig: &v1.PodDNSConfig{Nameservers: []string{"fe80::1%eth0"}}}, []string{"fe80::1%eth0"}},
	} {
		if got, _, err := sandbox.GetPodDNS(named("p", tc.spec), node); err != nil || !slices.Equal(got.Servers, tc.want) {
			t.Errorf("%s: %v, %v, want %v", name, got.GetServers(), err, tc.want)
		}
	}
	if !slices.Equal(node.Servers, kept) {
		t.Errorf("the node's servers were changed: %v", node.Servers)
	}
}

// S8: a nameserver on the node's loopback is for pods on the node's network, if there is another one.
func TestS8_ServersOnTheLoopbackAreForTheNodesNetwork(t *testing.T) {
	both := []string{"127.0.0.53", "::1", "192.0.2.1"}
	for name, tc := range map[string]struct {
		spec          v1.PodSpec
		servers, want []string
	}{
		"Default":            {v1.PodSpec{DNSPolicy: v1.DNSDefault}, both, []string{"192.0.2.1"}},
		"the node's network": {v1.PodSpec{DNSPolicy: v1.DNSDefault, HostNetwork: true}, both, both},
		"no other":           {v1.PodSpec{DNSPolicy: v1.DNSDefault}, []string{"127.0.0.1"}, []string{"127.0.0.1"}},
		"none":               {v1.PodSpec{DNSPolicy: v1.DNSDefault}, nil, nil},
	} {
		if got, _, err := sandbox.GetPodDNS(named("p", tc.spec), sandbox.NodeDNS{Servers: tc.servers}); err != nil || !slices.Equal(got.Servers, tc.want) {
			t.Errorf("%s: %v, %v, want %v", name, got.GetServers(), err, tc.want)
		}
	}
}

func TestDNSRefusesUnknownPolicy(t *testing.T) {
	if _, _, err := sandbox.GetPodDNS(named("p", v1.PodSpec{DNSPolicy: "Nope"}), clusterNode); !matches(err, "spec.dnsPolicy") {
		t.Errorf("error %v, want the field named", err)
	}
	if _, _, err := sandbox.GetPodDNS(nil, clusterNode); err == nil {
		t.Error("no error for a nil pod")
	}
}

func TestDNSWithoutClusterDNS(t *testing.T) {
	node := clusterNode
	node.ClusterServers = nil
	got, warnings, err := sandbox.GetPodDNS(named("p", v1.PodSpec{}), node)
	if err != nil || !slices.Equal(got.Servers, node.Servers) || !slices.Equal(got.Options, node.Options) {
		t.Errorf("%v, error %v; want the node's configuration", got, err)
	}
	if len(warnings) != 1 || warnings[0].Kind != sandbox.ClusterDNSMissing || warnings[0].Reason() != "MissingClusterDNS" {
		t.Errorf("warnings %v, want one of missing cluster DNS", warnings)
	}
	if _, warnings, _ = sandbox.GetPodDNS(named("p", v1.PodSpec{DNSPolicy: v1.DNSDefault}), node); len(warnings) > 0 {
		t.Errorf("warnings %v for a pod that asks for the node's DNS", warnings)
	}
}

func TestDNSWithoutClusterDomain(t *testing.T) {
	node := clusterNode
	node.ClusterDomain = ""
	got, _, err := sandbox.GetPodDNS(named("p", v1.PodSpec{}), node)
	if err != nil || !slices.Equal(got.Searches, node.Searches) {
		t.Errorf("searches %v, error %v; want the node's", got.GetSearches(), err)
	}
}

func numbered(n, length int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%0*d", length, i)
	}
	return list
}

func TestDNSLimits(t *testing.T) {
	texts := map[sandbox.DNSWarningKind]string{
		sandbox.NameserversCut: "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: ",
		sandbox.SearchesCut:    "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: ",
	}
	for name, tc := range map[string]struct {
		servers, searches   []string
		wantServers, wantSe []string
		wantKinds           []sandbox.DNSWarningKind
	}{
		"at the limits":        {numbered(3, 7), numbered(32, 8), numbered(3, 7), numbered(32, 8), nil},
		"a fourth server":      {numbered(4, 7), nil, numbered(3, 7), nil, []sandbox.DNSWarningKind{sandbox.NameserversCut}},
		"a 33rd domain":        {nil, numbered(33, 8), nil, numbered(32, 8), []sandbox.DNSWarningKind{sandbox.SearchesCut}},
		"a domain of 253":      {nil, numbered(2, 253), nil, numbered(2, 253), nil},
		"a domain of 254":      {nil, append(numbered(1, 254), "a"), nil, []string{"a"}, []sandbox.DNSWarningKind{sandbox.SearchesCut}},
		"2048 characters":      {nil, append(numbered(8, 227), numbered(1, 224)...), nil, append(numbered(8, 227), numbered(1, 224)...), nil},
		"2049 characters":      {nil, append(numbered(8, 227), numbered(1, 225)...), nil, numbered(8, 227), []sandbox.DNSWarningKind{sandbox.SearchesCut}},
		"servers and searches": {numbered(5, 7), numbered(40, 8), numbered(3, 7), numbered(32, 8), []sandbox.DNSWarningKind{sandbox.NameserversCut, sandbox.SearchesCut}},
	} {
		pod := named("p", v1.PodSpec{DNSPolicy: v1.DNSNone, DNSConfig: &v1.PodDNSConfig{Nameservers: tc.servers, Searches: tc.searches}})
		got, warnings, err := sandbox.GetPodDNS(pod, clusterNode)
		if err != nil || !slices.Equal(got.Servers, tc.wantServers) || !slices.Equal(got.Searches, tc.wantSe) {
			t.Errorf("%s: servers %v, searches of %d, error %v", name, got.GetServers(), len(got.GetSearches()), err)
		}
		var kinds []sandbox.DNSWarningKind
		for _, w := range warnings {
			kinds = append(kinds, w.Kind)
			if w.Reason() != "DNSConfigForming" || w.String() != texts[w.Kind]+strings.Join(w.Applied, " ") {
				t.Errorf("%s: warning %q with reason %s, want a kubelet's words and what was applied", name, w, w.Reason())
			}
		}
		if !slices.Equal(kinds, tc.wantKinds) {
			t.Errorf("%s: warnings %v, want %v", name, kinds, tc.wantKinds)
		}
		if len(warnings) > 0 {
			w := warnings[len(warnings)-1]
			if all := len(w.Applied) + len(w.Omitted); all != max(len(tc.searches), len(tc.servers)) && w.Kind == sandbox.SearchesCut {
				t.Errorf("%s: %d applied and omitted, want all", name, all)
			}
		}
	}
}

// The caller owns the configuration: neither its creation nor a change of it modifies the node's settings or the
// pod.
func TestDNSSharesNothingWithItsInput(t *testing.T) {
	node := func() sandbox.NodeDNS {
		return sandbox.NodeDNS{Servers: roomy("1", "2"), Searches: roomy("a", "b"), Options: roomy("ndots:2", "x"),
			ClusterServers: roomy("9", "8"), ClusterDomain: "c"}
	}
	for _, policy := range []v1.DNSPolicy{v1.DNSClusterFirst, v1.DNSDefault, v1.DNSNone} {
		for _, config := range []*v1.PodDNSConfig{nil, {
			Nameservers: roomy("1", "3", "4", "5"), Searches: roomy("b", "d"), Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: ptr("1")}}}} {
			given, pod := node(), named("p", v1.PodSpec{DNSPolicy: policy, DNSConfig: config})
			before := pod.DeepCopy()
			got, warnings, err := sandbox.GetPodDNS(pod, given)
			if err != nil {
				t.Fatal(err)
			}
			clear(got.Servers)
			clear(got.Searches)
			clear(got.Options)
			if !reflect.DeepEqual(given, node()) || !reflect.DeepEqual(pod, before) {
				t.Errorf("%s, %v: the input changed", policy, config)
			}
			for _, w := range warnings {
				if slices.Contains(w.Applied, "") {
					t.Errorf("%s: a warning changed with the configuration", policy)
				}
			}
		}
	}
}

// roomy returns a slice with spare capacity, which an append would overwrite.
func roomy(list ...string) []string { return append(make([]string, 0, 20), list...) }

func TestParseResolvConf(t *testing.T) {
	const text = "# comment\n; comment\n#nameserver 192.0.2.9\n;search x\nnameserver 192.0.2.1\nnameserver\tfd00::1 # rest\r\n\nsearch a. b\n" +
		"domain d\nsearch example.org. . c\nsearch\noptions timeout:2 rotate\noptions timeout:3\nsortlist 1\nnameserver\nnameserver 192.0.2.2"
	want := sandbox.NodeDNS{
		Servers:  []string{"192.0.2.1", "fd00::1", "192.0.2.2"},
		Searches: []string{"example.org", ".", "c"},
		Options:  []string{"timeout:3", "rotate"},
	}
	if got := sandbox.ParseResolvConf(text); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := sandbox.ParseResolvConf(""); !reflect.DeepEqual(got, sandbox.NodeDNS{}) {
		t.Errorf("%+v of nothing, want %v", got, sandbox.NodeDNS{})
	}
}

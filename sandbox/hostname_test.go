package sandbox_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podsync/podsync/sandbox"
)

func ptr[T any](v T) *T { return &v }

func named(name string, spec v1.PodSpec) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: "u-1"}, Spec: spec}
}

func TestHostnameOf(t *testing.T) {
	for name, tc := range map[string]struct {
		pod    *v1.Pod
		domain string
		want   sandbox.Hostname
		fails  string
	}{
		"the pod's name":            {named("web-0", v1.PodSpec{}), "cluster.local", sandbox.Hostname{Host: "web-0"}, ""},
		"a name with dots":          {named("web.0", v1.PodSpec{}), "cluster.local", sandbox.Hostname{Host: "web.0"}, ""},
		"63 characters fit":         {named(strings.Repeat("a", 63), v1.PodSpec{}), "", sandbox.Hostname{Host: strings.Repeat("a", 63)}, ""},
		"64 are cut":                {named(strings.Repeat("a", 64), v1.PodSpec{}), "", sandbox.Hostname{Host: strings.Repeat("a", 63)}, ""},
		"no - at the cut":           {named(strings.Repeat("a", 60)+"---b", v1.PodSpec{}), "", sandbox.Hostname{Host: strings.Repeat("a", 60)}, ""},
		"no . at the cut":           {named(strings.Repeat("a", 62)+".b", v1.PodSpec{}), "", sandbox.Hostname{Host: strings.Repeat("a", 62)}, ""},
		"name, not a name":          {named("UPPER_case", v1.PodSpec{}), "", sandbox.Hostname{}, "metadata.name"},
		"name, two lines":           {named("a b\n", v1.PodSpec{}), "", sandbox.Hostname{}, "metadata.name"},
		"name, too long a name":     {named(strings.Repeat("a", 254), v1.PodSpec{}), "", sandbox.Hostname{}, "metadata.name"},
		"namespace, not a name":     {&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "N S"}, Spec: v1.PodSpec{Subdomain: "s"}}, "c", sandbox.Hostname{}, "metadata.namespace"},
		"no name":                   {named("", v1.PodSpec{}), "", sandbox.Hostname{}, "metadata.name"},
		"spec.hostname":             {named("p", v1.PodSpec{Hostname: "h"}), "cluster.local", sandbox.Hostname{Host: "h"}, ""},
		"spec.hostname, not a name": {named("p", v1.PodSpec{Hostname: "a.b"}), "", sandbox.Hostname{}, "spec.hostname"},
		"a subdomain":               {named("p", v1.PodSpec{Subdomain: "sub"}), "cluster.local", sandbox.Hostname{Host: "p", Domain: "sub.ns.svc.cluster.local"}, ""},
		"no cluster domain":         {named("p", v1.PodSpec{Subdomain: "sub"}), "", sandbox.Hostname{Host: "p", Domain: "sub.ns.svc"}, ""},
		"subdomain, not a name":     {named("p", v1.PodSpec{Subdomain: "A"}), "", sandbox.Hostname{}, "spec.subdomain"},
		"override beats all":        {named("p", v1.PodSpec{Hostname: "h", Subdomain: "s", HostnameOverride: ptr("x.example.org")}), "c", sandbox.Hostname{Host: "x.example.org"}, ""},
		"an empty override is none": {named("p", v1.PodSpec{HostnameOverride: ptr("")}), "c", sandbox.Hostname{Host: "p"}, ""},
		"override, 64 characters":   {named("p", v1.PodSpec{HostnameOverride: ptr(strings.Repeat("a", 64))}), "c", sandbox.Hostname{Host: strings.Repeat("a", 64)}, ""},
		"override, 65 characters":   {named("p", v1.PodSpec{HostnameOverride: ptr(strings.Repeat("a", 65))}), "c", sandbox.Hostname{}, "spec.hostnameOverride"},
		"override, not a name":      {named("p", v1.PodSpec{HostnameOverride: ptr("a_b")}), "c", sandbox.Hostname{}, "spec.hostnameOverride"},
		"no pod":                    {nil, "c", sandbox.Hostname{}, "nil"},
	} {
		got, err := sandbox.GeneratePodHostname(tc.pod, tc.domain)
		if got != tc.want || !matches(err, tc.fails) {
			t.Errorf("%s: %+v, error %v; want %+v, error with %q", name, got, err, tc.want, tc.fails)
		}
	}
}

// matches reports whether err is nil as expected, or contains the expected text.
func matches(err error, what string) bool {
	if what == "" {
		return err == nil
	}
	return err != nil && strings.Contains(err.Error(), what)
}

func TestKernelHostname(t *testing.T) {
	fqdn, plain := named("p", v1.PodSpec{SetHostnameAsFQDN: ptr(true)}), named("p", v1.PodSpec{SetHostnameAsFQDN: ptr(false)})
	long := strings.Repeat("a", 63)
	for name, tc := range map[string]struct {
		host  sandbox.Hostname
		pod   *v1.Pod
		want  string
		fails string
	}{
		"host":                     {sandbox.Hostname{Host: "h", Domain: "d"}, plain, "h", ""},
		"FQDN":                     {sandbox.Hostname{Host: "h", Domain: "d"}, fqdn, "h.d", ""},
		"no domain, no FQDN":       {sandbox.Hostname{Host: "h"}, fqdn, "h", ""},
		"a long host without FQDN": {sandbox.Hostname{Host: long + "aaaa", Domain: "d"}, plain, long + "aaaa", ""},
		"64 characters":            {sandbox.Hostname{Host: long[:62], Domain: "d"}, fqdn, long[:62] + ".d", ""},
		"65 characters":            {sandbox.Hostname{Host: long, Domain: "d"}, fqdn, "", "setHostnameAsFQDN"},
		"no pod":                   {sandbox.Hostname{Host: "h", Domain: "d"}, nil, "h", ""},
	} {
		got, err := tc.host.Kernel(tc.pod)
		if got != tc.want || !matches(err, tc.fails) {
			t.Errorf("%s: %q, error %v; want %q, error with %q", name, got, err, tc.want, tc.fails)
		}
	}
}

// Whatever a pod is called, its hostname is one that DNS and the kernel take.
func FuzzHostnameOf(f *testing.F) {
	f.Add("web-0", "", "")
	f.Add(strings.Repeat("a.", 50), "h", "s")
	f.Fuzz(func(t *testing.T, name, hostname, subdomain string) {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			t.Skip("an API server refuses the name")
		}
		h, err := sandbox.GeneratePodHostname(named(name, v1.PodSpec{Hostname: hostname, Subdomain: subdomain}), "cluster.local")
		if err != nil {
			return
		}
		if problems := validation.IsDNS1123Subdomain(h.Host); len(problems) > 0 || len(h.Host) > 63 {
			t.Errorf("host %q of %d characters: %v", h.Host, len(h.Host), problems)
		}
	})
}

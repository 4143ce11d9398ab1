package image

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123"

func TestParseReference(t *testing.T) {
	for in, want := range map[string]imageRef{
		"nginx":                      {"nginx:latest", "docker.io/library/nginx", "docker.io/library/nginx:latest", "latest"},
		"nginx:1.2":                  {"nginx:1.2", "docker.io/library/nginx", "docker.io/library/nginx:1.2", "1.2"},
		"team/app":                   {"team/app:latest", "docker.io/team/app", "docker.io/team/app:latest", "latest"},
		"r.io:5000/a/b":              {"r.io:5000/a/b:latest", "r.io:5000/a/b", "r.io:5000/a/b:latest", "latest"},
		"r.io/a@" + digest:           {"r.io/a@" + digest, "r.io/a", "r.io/a@" + digest, ""},
		"r.io/a:v1@" + digest:        {"r.io/a:v1@" + digest, "r.io/a", "r.io/a:v1@" + digest, "v1"},
		"index.docker.io/library/ok": {"index.docker.io/library/ok:latest", "docker.io/library/ok", "docker.io/library/ok:latest", "latest"},
	} {
		if got, err := parseReference(in); err != nil || got != want {
			t.Errorf("ParseReference(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "r.io/UPPER", "a b", "r.io/", "a:b:c", "a@sha256:1", "-x", "https://r.io/a"} {
		if got, err := parseReference(bad); err == nil {
			t.Errorf("ParseReference(%q) = %+v, want an error", bad, got)
		}
	}
}

func TestPolicy(t *testing.T) {
	for _, tc := range []struct {
		policy  v1.PullPolicy
		image   string
		present bool
		pull    bool
		reason  Reason
	}{
		{v1.PullAlways, "a:v1", true, true, ""},
		{v1.PullAlways, "a:v1", false, true, ""},
		{v1.PullIfNotPresent, "a:latest", true, false, ""},
		{v1.PullIfNotPresent, "a:latest", false, true, ""},
		{v1.PullNever, "a:v1", true, false, ""},
		{v1.PullNever, "a:v1", false, false, ErrImageNeverPull},
		{"", "a", true, true, ""},
		{"", "a:latest", true, true, ""},
		{"", "a:v1", true, false, ""},
		{"", "a@" + digest, true, false, ""},
		{"", "a:latest@" + digest, true, true, ""},
		{"", "a:v1", false, true, ""},
	} {
		ref := must.Get(parseReference(tc.image))(t)
		pull, reason := shouldPull(effectivePolicy(tc.policy, ref), tc.present)
		if pull != tc.pull || reason != tc.reason {
			t.Errorf("%+v: pull %v, reason %q", tc, pull, reason)
		}
	}
}

func FuzzParseReference(f *testing.F) {
	f.Add("nginx")
	f.Add("r.io:5000/a/b:v1@" + digest)
	f.Fuzz(func(t *testing.T, name string) {
		ref, err := parseReference(name)
		if err != nil {
			return
		}
		again, err := parseReference(ref.pull)
		if err != nil || again != ref {
			t.Errorf("%q is %+v, and that parses as %+v, %v", name, ref, again, err)
		}
		if again, err := parseReference(ref.full); err != nil || again.repository != ref.repository {
			t.Errorf("%q: the full name parses as %+v, %v", name, again, err)
		}
	})
}

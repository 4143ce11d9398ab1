package architecture

import (
	"slices"
	"strings"
	"testing"
)

// graphOf reads one package a line: its path, then its imports. A path that
// begins with "~" is one of ours.
func graphOf(text string) graph {
	g := graph{}
	for line := range strings.Lines(strings.ReplaceAll(text, "~", module+"/")) {
		if words := strings.Fields(line); len(words) > 0 {
			g[words[0]] = &pkg{ImportPath: words[0], Imports: words[1:]}
			g[words[0]].Module.Path, _, _ = strings.Cut(words[0], "/pkg")
		}
	}
	return g
}

func TestOwnImportsRule(t *testing.T) {
	table := []room{
		{"a", nil, "a is at the bottom"},
		{"b", []string{"a"}, "b uses a"},
		{"b/...", []string{"a", "b"}, "below b"},
		{"top", []string{"..."}, "anything"},
	}
	for _, tt := range []struct {
		name, graph string
		want        []string
	}{
		{"allowed", "~a fmt\n~b ~a fmt\n~b/c ~b ~a\n~top ~a ~b ~b/c", nil},
		{"a package below follows the entry for the tree", "~b/c/d ~a ~b", nil},
		{"packages of a tree share its entry", "~b/c ~a\n~b/d ~b", nil},
		{"allowed, and not used", "~b/c ~b", []string{"b/... does not import a: take it out of the table of rooms"}},
		{"upwards", "~a ~b\n~b ~a", []string{"a must not import b: a is at the bottom"}},
		{"into a package below", "~b ~a ~b/c\n~b/c ~a ~b", []string{"b must not import b/c: b uses a"}},
		{"between neighbours", "~b/c ~a ~b ~b/d\n~b/d", []string{"b/c must not import b/d: below b"}},
		{"unknown room", "~new", []string{"new has no entry in the table of rooms: say what it may import and why"}},
		{"elsewhere is not its matter", "~a k8s.io/api", nil},
	} {
		if got := ownImports(graphOf(tt.graph), table); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestBannedRule(t *testing.T) {
	direct := ban{in: []string{"a/..."}, except: []string{"a/fake"}, forbids: []string{"x.io/log/..."}, because: "no logs"}
	deep := ban{in: []string{"a/..."}, forbids: []string{"x.io/log/...", "x.io/rpc"}, throughout: true, because: "no logs at all"}
	for _, tt := range []struct {
		name  string
		ban   ban
		graph string
		want  []string
	}{
		{"clean", deep, "~a fmt x.io/logs\nx.io/logs x.io/rpc/codes", nil},
		{"direct", direct, "~a x.io/log", []string{"a must not import x.io/log: no logs"}},
		{"direct, in the tree", direct, "~a/b x.io/log/text", []string{"a/b must not import x.io/log/text: no logs"}},
		{"direct, elsewhere's own", direct, "~a x.io/api\nx.io/api x.io/log", nil},
		{"except", direct, "~a/fake x.io/log", nil},
		{"another package of ours", direct, "~b x.io/log", nil},
		{"throughout", deep, "~a ~b\n~b x.io/api\nx.io/api x.io/log", []string{
			"a must not import " + module + "/b -> x.io/api -> x.io/log: no logs at all",
		}},
		{"each pattern", deep, "~a x.io/log x.io/rpc", []string{
			"a must not import x.io/log: no logs at all", "a must not import x.io/rpc: no logs at all",
		}},
		{"a cycle ends", deep, "~a ~b\n~b ~a", nil},
	} {
		if got := banned(graphOf(tt.graph), []ban{tt.ban}); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// What the tables are for: each of these imports, put into the module as it is,
// breaks a rule.
func TestTablesForbid(t *testing.T) {
	for _, tt := range []struct{ pkg, imports string }{
		{"runtime", "~backoff"},
		{"runtime", "~actions"},
		{"runtime", "k8s.io/cri-api/pkg/apis/runtime/v1"},
		{"backoff", "~runtime"},
		{"backoff", "k8s.io/api/core/v1"},
		{"actions", "~backoff"},
		{"actions", "~podworkers"},
		{"actions", "~sandbox"},
		{"actions", "google.golang.org/grpc/codes"},
		{"actions", "k8s.io/klog/v2"},
		{"actions", "github.com/go-logr/logr"},
		{"podworkers", "~actions"},
		{"podworkers", "~syncpod"},
		{"podworkers", "k8s.io/cri-api/pkg/apis/runtime/v1"},
		{"runtime/cri", "~actions"},
		{"runtime/cri", "~runtime/cri/critest"},
		{"runtime/cri/critest", "testing"},
		{"runtime/cri/critest", "~runtime/cri"},
		{"runtime/cri/critest/conformance", "~runtime/cri/critest"},
		{"runtime/cri/critest/agenttest", "~syncpod/loop"},
		{"runtime/cri/critest/agenttest", "testing"},
		{"runtime/image", "~sandbox"},
		{"runtime/logs", "~runtime/cri"},
		{"sandbox", "~actions"},
		{"sandbox", "~syncpod/container"},
		{"sandbox", "log/slog"},
		{"syncpod/container", "~sandbox"},
		{"syncpod/container", "~syncpod/podspec"},
		{"syncpod/status", "~syncpod"},
		{"syncpod/status", "~backoff"},
		{"syncpod/lifecycle/handler", "~syncpod"},
		{"syncpod/podspec/qos", "~runtime"},
		{"syncpod/poddir", "~runtime/cri"},
		{"syncpod/volume/local", "~syncpod"},
		{"runtime/pleg", "~podworkers"},
		{"syncpod/container", "~syncpod"},
		{"syncpod/container", "google.golang.org/grpc"},
		{"syncpod", "~podworkers"},
		{"syncpod", "~syncpod/loop"},
		{"syncpod", "~runtime/cri/critest"},
		{"syncpod", "~syncpod/source"},
		{"syncpod/source", "~syncpod"},
		{"syncpod/source", "~syncpod/loop"},
		{"syncpod/loop", "~internal/rig/conformance"},
		{"syncpod/loop", "~syncpod/server"},
		{"syncpod/server", "~podworkers"},
		{"syncpod/server", "~syncpod/timeline"},
		{"syncpod/loop", "~syncpod/timeline"},
		{"syncpod/timeline", "~syncpod/server"},
		{"syncpod/loop", "k8s.io/client-go/tools/record"},
		{"examples/agent", "k8s.io/client-go/kubernetes"},
		{"examples/agent", "testing"},
		{"internal/linux", "flag"},
		{"runtime/hostfs/mounts", "log"},
		{"internal/limiter", "~runtime"},
		{"internal/podfile", "~internal/rig/upgrade"},
		{"sandbox", "testing"},
	} {
		g := graphOf("~" + tt.pkg + " " + tt.imports)
		if len(ownImports(g, rooms)) == 0 && len(banned(g, bans)) == 0 {
			t.Errorf("%s may import %s", tt.pkg, tt.imports)
		}
	}
}

func TestMergeJoinsPlatforms(t *testing.T) {
	g := graph{}
	for _, text := range []string{
		`{"ImportPath": "a", "Imports": ["b"]} {"ImportPath": "b", "Standard": true}`,
		`{"ImportPath": "a", "Imports": ["b", "c"]}`,
	} {
		if err := g.merge(strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got := g["a"].Imports; !slices.Equal(got, []string{"b", "c"}) || !g["b"].Standard {
		t.Errorf("a imports %v, b is %+v, want %q and g[\"b\"].Standard", got, g["b"], []string{"b", "c"})
	}
	if g.merge(strings.NewReader("{")) == nil {
		t.Error("half an object was taken")
	}
}

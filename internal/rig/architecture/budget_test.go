package architecture

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// What the library may bring into a program that uses all of it.
const (
	maxPackages = 170 // beyond the standard library and our own
	maxModules  = 26  // that these packages come from
	// critestModules are the modules that only programs with a runtime in memory link: mvdan.cc/sh, in 5 packages.
	critestModules = 1
)

// requirements are the modules that may be required directly, with the reason.
var requirements = map[string]string{
	"github.com/cockroachdb/datadriven": "stories of state machines are read and rewritten; only tests use it",
	"github.com/distribution/reference": "image names are parsed as container runtimes parse them",
	"github.com/fsnotify/fsnotify":      "changes of a folder are seen at once, on each system by its own means",
	"github.com/go-logr/logr":           "the logger that an embedder passes in",
	"go.yaml.in/yaml/v2":                "manifests; comes with apimachinery",
	"google.golang.org/grpc":            "CRI is spoken over it",
	"google.golang.org/protobuf":        "CRI messages are cloned and compared with it",
	"k8s.io/api":                        "pods",
	"k8s.io/apimachinery":               "what pods are made of",
	"k8s.io/cri-api":                    "CRI's messages and clients",
	"k8s.io/utils":                      "comes with apimachinery",
	"mvdan.cc/sh/v3":                    "scripts of containers in memory are parsed as shells parse them; only critest links it",
	"sigs.k8s.io/json":                  "manifests, with the fields that are not known; comes with apimachinery",
	"sigs.k8s.io/yaml":                  "manifests; comes with apimachinery",
}

// A goMod is what go mod edit -json prints.
type goMod struct {
	Module  struct{ Path string }
	Require []struct {
		Path     string
		Indirect bool
	}
	Replace []struct{ Old struct{ Path string } }
}

// modFaults returns what breaks the rules for go.mod, which also has what only
// tests depend on.
func modFaults(m goMod) []string {
	var broken []string
	for _, r := range m.Replace {
		broken = append(broken, fmt.Sprintf("go.mod replaces %s: an embedder's build would not, and be another one", r.Old.Path))
	}
	for _, r := range m.Require {
		if matchAny(bans[0].forbids, r.Path) {
			broken = append(broken, fmt.Sprintf("go.mod requires %s: %s", r.Path, bans[0].because))
		} else if !r.Indirect && requirements[r.Path] == "" {
			broken = append(broken, fmt.Sprintf("go.mod requires %s: every embedder pays for it; say in the table why", r.Path))
		}
	}
	return broken
}

// overBudget returns one line for each count of dependencies that is above the budget of the library.
func overBudget(deps []*pkg, packages, modules int) []string {
	var foreign []string
	from := map[string]bool{}
	for _, p := range deps {
		if !p.Standard && p.ImportPath != module && !strings.HasPrefix(p.ImportPath, module+"/") {
			foreign = append(foreign, p.ImportPath)
			from[p.Module.Path] = true
		}
	}
	var broken []string
	if len(foreign) > packages {
		broken = append(broken, fmt.Sprintf("%d packages, at most %d: every embedder builds them", len(foreign), packages))
	}
	if len(from) > modules {
		broken = append(broken, fmt.Sprintf("%d modules, at most %d: every embedder watches them for faults", len(from), modules))
	}
	return broken
}

func TestBudget(t *testing.T) {
	g := moduleGraph(t)
	var roots []string
	for _, path := range g.own() {
		if matchAny(library, short(path)) && !matchAny([]string{"runtime/cri/critest/..."}, short(path)) {
			roots = append(roots, path)
		}
	}
	deps := g.closure(roots)
	if len(deps) < 100 {
		t.Errorf("the library depends on %d packages, with the standard library there must be more", len(deps))
	}
	for _, b := range overBudget(deps, maxPackages, maxModules) {
		t.Error(b)
	}
}

func TestGoMod(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod")) // so that the test is run again when it changes
	must.Do(t, err)
	out := must.Get(goTool("", "mod", "edit", "-json"))(t)
	var m goMod
	must.Do(t, json.Unmarshal([]byte(out), &m))
	if m.Module.Path != module || len(m.Require) == 0 {
		t.Errorf("module %s with %d requirements, read from\n%s", m.Module.Path, len(m.Require), text)
	}
	for _, b := range modFaults(m) {
		t.Error(b)
	}
}

func TestGoModRule(t *testing.T) {
	for text, want := range map[string]int{
		`{"Require": [{"Path": "k8s.io/api"}, {"Path": "gopkg.in/inf.v0", "Indirect": true}]}`:                    0,
		`{"Require": [{"Path": "github.com/pkg/errors"}]}`:                                                        1,
		`{"Require": [{"Path": "k8s.io/client-go", "Indirect": true}, {"Path": "k8s.io/kubernetes"}]}`:            2,
		`{"Replace": [{"Old": {"Path": "k8s.io/api"}, "New": {"Path": "../api"}}], "Require": [{"Path": "x.y"}]}`: 2,
	} {
		var m goMod
		must.Do(t, json.Unmarshal([]byte(text), &m))
		if got := modFaults(m); len(got) != want {
			t.Errorf("%s: %q, want %d", text, got, want)
		}
	}
}

func TestBudgetRule(t *testing.T) {
	g := graphOf("~a ~b fmt x.io/pkg/1 y.io/pkg/1\n~b x.io/pkg/2\nx.io/pkg/1 x.io/pkg/3\nx.io/pkg/2\nx.io/pkg/3\ny.io/pkg/1\nz.io/pkg/1\nfmt")
	g["fmt"].Standard = true
	deps := g.closure([]string{module + "/a"})
	if len(deps) != 7 {
		t.Fatalf("%d packages, want a, b, fmt, three of x.io and one of y.io", len(deps))
	}
	for _, tt := range []struct{ packages, modules, want int }{
		{4, 2, 0}, {3, 2, 1}, {4, 1, 1}, {3, 1, 2},
	} {
		if got := overBudget(deps, tt.packages, tt.modules); len(got) != tt.want {
			t.Errorf("%d packages, %d modules: %q, want %d", tt.packages, tt.modules, got, tt.want)
		}
	}
}

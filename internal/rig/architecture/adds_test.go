package architecture

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write docs/results/imports.txt anew, which says what each package adds")

const (
	addsFile  = "docs/results/imports.txt"
	addsBegin = "| import | packages | modules | packages beyond `syncpod/loop` | modules beyond it |\n| --- | --- | --- | --- | --- |\n"
)

// modulesOfOwn are the modules of this repository that programs import besides the root module.
var modulesOfOwn = []string{"modules/cluster", "modules/csi", "modules/devices", "modules/dra", "modules/otel", "modules/prometheus", "modules/systemd"}

// cost is what an import brings into a program: packages outside the standard library and this
// repository, by path, with the module of each.
type cost map[string]string

func costOf(deps []*pkg) cost {
	c := cost{}
	for _, p := range deps {
		if !p.Standard && p.ImportPath != module && !strings.HasPrefix(p.ImportPath, module+"/") {
			c[p.ImportPath] = p.Module.Path
		}
	}
	return c
}

// modules returns how many modules the packages come from.
func (c cost) modules() int {
	from := map[string]bool{}
	for _, m := range c {
		from[m] = true
	}
	return len(from)
}

// beyond returns the packages that another import does not bring, and how many modules it brings
// none of.
func (c cost) beyond(other cost) (packages, modules int) {
	known := map[string]bool{}
	for _, m := range other {
		known[m] = true
	}
	added := map[string]bool{}
	for p, m := range c {
		if _, ok := other[p]; !ok {
			packages++
		}
		if !known[m] {
			added[m] = true
		}
	}
	return packages, len(added)
}

// costs returns the cost of each public package of the library, of each module of this repository
// as a whole, and of the agent that a reader runs first.
func costs(t *testing.T) map[string]cost {
	t.Helper()
	g, list := moduleGraph(t), map[string]cost{}
	for _, path := range g.own() {
		name := short(path)
		public := matchAny(library, name) && !strings.Contains("/"+name+"/", "/internal/")
		if name != "." && (public || name == "examples/nodeagent") {
			list[name] = costOf(g.closure([]string{path}))
		}
	}
	for _, dir := range modulesOfOwn {
		c := cost{}
		for _, platform := range platforms {
			for _, p := range depsOf(t, dir, platform) {
				for path, from := range costOf([]*pkg{p}) {
					c[path] = from
				}
			}
		}
		list[dir] = c
	}
	return list
}

// depsOf returns the packages of a module, tests left out, and all that they depend on.
func depsOf(t *testing.T, dir, platform string) (deps []*pkg) {
	t.Helper()
	read(t, dir+"/go.mod") // so that the test is run again when it changes
	out, err := goTool("GOOS="+platform, "-C", filepath.FromSlash(dir), "list", "-deps", "-json=ImportPath,Standard,Module", "./...")
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return deps
		} else if err != nil {
			t.Fatal(err)
		}
		deps = append(deps, &p)
	}
}

// addsTable is the table, with a row for each import.
func addsTable(list map[string]cost) string {
	var names []string
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString(addsBegin)
	for _, name := range names {
		packages, modules := list[name].beyond(list["syncpod/loop"])
		fmt.Fprintf(&b, "| `%s` | %d | %d | %d | %d |\n", name, len(list[name]), list[name].modules(), packages, modules)
	}
	return b.String()
}

// TestWhatPackagesAdd holds docs/results/imports.txt to what the packages import.
func TestWhatPackagesAdd(t *testing.T) {
	list := costs(t)
	if len(list) < 30 || len(list["syncpod/loop"]) < 100 {
		t.Fatalf("%d imports; the loop adds %d packages", len(list), len(list["syncpod/loop"]))
	}
	page := read(t, addsFile)
	before, rest, found := strings.Cut(page, addsBegin)
	if !found {
		t.Fatalf("%s has no table that begins with\n%s", addsFile, addsBegin)
	}
	for strings.HasPrefix(rest, "| ") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	want := before + addsTable(list) + rest
	if *rewrite {
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(addsFile)), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if page != want {
		t.Errorf("%s does not say what the packages add; go test ./internal/rig/architecture -run TestWhatPackagesAdd -rewrite writes the table anew, as\n%s", addsFile, addsTable(list))
	}
}

// TestServerAddsNothing: an agent that serves the kubelet's API or a page, or records a timeline, links no package more than the
// loop, and one that runs on the runtime in memory no more than the parser of its shell.
func TestServerAddsNothing(t *testing.T) {
	g := moduleGraph(t)
	loop := costOf(g.closure([]string{module + "/syncpod/loop"}))
	for name, allowed := range map[string]int{"syncpod/server": 0, "syncpod/page": 0, "syncpod/timeline": 0, "runtime/cri/critest": critestModules} {
		if packages, modules := costOf(g.closure([]string{module + "/" + name})).beyond(loop); packages > 5*allowed || modules > allowed {
			t.Errorf("%s adds %d packages of %d modules to the loop", name, packages, modules)
		}
	}
}

func TestCostRule(t *testing.T) {
	a := cost{"x.io/1": "x.io", "x.io/2": "x.io", "y.io/1": "y.io"}
	b := cost{"x.io/1": "x.io", "z.io/1": "z.io"}
	if packages, modules := a.beyond(b); a.modules() != 2 || packages != 2 || modules != 1 {
		t.Errorf("%d modules; beyond: %d packages and %d modules, want 2; 2 and 1", a.modules(), packages, modules)
	}
	table := addsTable(map[string]cost{"syncpod/loop": b, "a": a})
	if want := addsBegin + "| `a` | 3 | 2 | 2 | 1 |\n| `syncpod/loop` | 2 | 2 | 0 | 0 |\n"; table != want {
		t.Errorf("the table is\n%s, want\n%s", table, want)
	}
}

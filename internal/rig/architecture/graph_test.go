package architecture

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const module = "github.com/podsync/podsync"

// platforms are those that a package's imports are taken from, so that a file
// behind a build tag is held to the rules too.
var platforms = []string{"linux", "darwin", "windows"}

// A pkg is one package without its tests, as go list describes it.
type pkg struct {
	ImportPath string
	Standard   bool
	Module     struct{ Path string }
	Imports    []string
}

// A graph maps import paths to the module's packages and their dependencies.
type graph map[string]*pkg

// own returns the import paths of this module's packages, sorted.
func (g graph) own() []string {
	var list []string
	for path := range g {
		if path == module || strings.HasPrefix(path, module+"/") {
			list = append(list, path)
		}
	}
	slices.Sort(list)
	return list
}

// chain returns the shortest way from a package to another one that a pattern
// matches, both ends included, or nil.
func (g graph) chain(from string, patterns []string) []string {
	ways := [][]string{{from}}
	seen := map[string]bool{from: true}
	for len(ways) > 0 {
		way := ways[0]
		ways = ways[1:]
		p := g[way[len(way)-1]]
		if p == nil {
			continue
		}
		for _, next := range p.Imports {
			if seen[next] {
				continue
			}
			seen[next] = true
			longer := append(slices.Clone(way), next)
			if matchAny(patterns, next) {
				return longer
			}
			ways = append(ways, longer)
		}
	}
	return nil
}

// closure returns all that the given packages depend on, themselves included.
func (g graph) closure(from []string) []*pkg {
	seen := map[string]bool{}
	var list []*pkg
	var add func(string)
	add = func(path string) {
		p := g[path]
		if p == nil || seen[path] {
			return
		}
		seen[path] = true
		list = append(list, p)
		for _, next := range p.Imports {
			add(next)
		}
	}
	for _, path := range from {
		add(path)
	}
	return list
}

// match tells whether a pattern is an import path or, ending in "/...", that of
// a package or of one above it. "..." is every path.
func match(pattern, path string) bool {
	if pattern == "..." {
		return true
	}
	above, tree := strings.CutSuffix(pattern, "/...")
	return path == above || tree && strings.HasPrefix(path, above+"/")
}

func matchAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, path) })
}

// short is an import path of this module as the rules write it, "." for the root.
func short(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

// merge adds packages as one platform sees them.
func (g graph) merge(r io.Reader) error {
	for d := json.NewDecoder(r); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if known := g[p.ImportPath]; known != nil {
			p.Imports = append(p.Imports, known.Imports...)
			slices.Sort(p.Imports)
			p.Imports = slices.Compact(p.Imports)
		}
		g[p.ImportPath] = &p
	}
}

// loadGraph asks go list once for all tests.
var loadGraph = sync.OnceValues(func() (graph, error) {
	g := graph{}
	for _, platform := range platforms {
		out, err := goTool("GOOS="+platform, "list", "-deps", "-json=ImportPath,Standard,Module,Imports", "./...")
		if err != nil {
			return nil, err
		}
		if err := g.merge(strings.NewReader(out)); err != nil {
			return nil, err
		}
	}
	return g, nil
})

func goTool(env string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", env)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = errors.Join(err, errors.New(string(exit.Stderr)))
	}
	return string(out), err
}

// root is the module's folder, seen from this one.
var root = filepath.Join("..", "..", "..")

func moduleGraph(t *testing.T) graph {
	t.Helper()
	g := must.Get(loadGraph())(t)
	return g
}

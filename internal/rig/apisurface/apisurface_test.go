package apisurface

import (
	"flag"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

var rewrite = flag.Bool("rewrite", false, "write what the module exports into docs/api/next.txt")

const again = "go test ./internal/rig/apisurface -rewrite writes docs/api/next.txt anew"

var (
	root = filepath.Join("..", "..", "..")
	next = filepath.Join(root, "docs", "api", "next.txt")

	loadPublic = sync.OnceValues(func() (surface, error) {
		packages, lines, err := Public(root)
		return surface{packages, lines}, err
	})
)

type surface struct {
	packages []Package
	lines    []string
}

func public(t *testing.T) surface {
	t.Helper()
	s := must.Get(loadPublic())(t)
	if len(s.packages) < 15 || len(s.lines) < 1000 {
		t.Fatalf("%d packages export %d names, there must be more", len(s.packages), len(s.lines))
	}
	return s
}

func TestSurfaceIsWrittenDown(t *testing.T) {
	now := public(t).lines
	if *rewrite {
		must.Do(t, os.WriteFile(next, []byte(strings.Join(now, "\n")+"\n"), 0o644))
	}
	written := readLines(t, next)
	for _, line := range Gone(now, written) {
		t.Errorf("not written down: %s", line)
	}
	for _, line := range Gone(written, now) {
		t.Errorf("written down, and not there: %s", line)
	}
	if !slices.Equal(written, now) {
		t.Errorf("%v, want %v", again, now)
	}
}

// frontDoor are the packages that most programs start with.
var frontDoor = []string{"actions", "backoff", "podworkers", "runtime", "sandbox", "syncpod", "syncpod/agent", "syncpod/source"}

// TestSurfaceIsCounted prints with -v how many packages and lines are the front door, the parts and the test kit. None has a limit.
func TestSurfaceIsCounted(t *testing.T) {
	lines, packages := map[string]int{}, map[string]map[string]bool{}
	for _, line := range public(t).lines {
		pkg, _, _ := strings.Cut(line, ".")
		kind := "parts"
		switch {
		case slices.Contains(frontDoor, pkg):
			kind = "front door"
		case strings.HasPrefix(pkg, "runtime/cri/critest"):
			kind = "test kit"
		}
		if packages[kind] == nil {
			packages[kind] = map[string]bool{}
		}
		lines[kind]++
		packages[kind][pkg] = true
	}
	for kind, n := range lines {
		t.Logf("%s: %d lines of %d packages", kind, n, len(packages[kind]))
	}
	if len(packages["front door"]) != len(frontDoor) {
		t.Errorf("front door: %v, want %q", packages["front door"], frontDoor)
	}
}

func TestBreaksAreAnnounced(t *testing.T) {
	changelog := read(t, filepath.Join(root, "CHANGELOG.md"))
	files := must.Get(filepath.Glob(filepath.Join(root, "docs", "api", "v*.txt")))(t)
	var released []string
	for _, file := range files {
		released = append(released, strings.TrimSuffix(filepath.Base(file), ".txt"))
	}
	named := Versions(changelog)
	slices.Sort(released)
	slices.Sort(named)
	if !slices.Equal(released, named) {
		t.Errorf("docs/api has the releases %q, and CHANGELOG.md has %q", released, named)
	}
	last := Latest(released)
	if last == "" {
		return // there is nothing to keep yet
	}
	gone := Gone(readLines(t, filepath.Join(root, "docs", "api", last+".txt")), public(t).lines)
	for _, line := range Unannounced(gone, Announced(changelog)) {
		t.Errorf("%s had %s, and CHANGELOG.md does not name it under \"Breaking\"", last, line)
	}
}

func TestEveryNameHasAComment(t *testing.T) {
	for _, p := range public(t).packages {
		documented := false
		for _, name := range p.GoFiles {
			f := parse(t, filepath.Join(p.Dir, name))
			documented = documented || f.Doc != nil
			for _, n := range Uncommented(f) {
				t.Errorf("%s: nothing says what %s.%s is", filepath.Join(p.Dir, name), f.Name.Name, n)
			}
		}
		if !documented {
			t.Errorf("package %s has no comment", p.ImportPath)
		}
	}
}

func TestEveryPackageHasAnExample(t *testing.T) {
	for _, p := range public(t).packages {
		files := must.Get(filepath.Glob(filepath.Join(p.Dir, "*_test.go")))(t)
		runs := func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput }
		if !slices.ContainsFunc(files, func(file string) bool { return slices.ContainsFunc(doc.Examples(parse(t, file)), runs) }) {
			t.Errorf("package %s has no example that runs", p.ImportPath)
		}
	}
}

func parse(t *testing.T, name string) *ast.File {
	t.Helper()
	f := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments))(t)
	return f
}

func read(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(name))(t)
	return string(text)
}

func readLines(t *testing.T, name string) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(read(t, name), "\n"), "\n")
}

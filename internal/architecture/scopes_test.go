package architecture

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxScope is the largest number of methods that one struct type may have, its own and those
// of the types that it embeds. A reader of such a method has to know all of them.
const maxScope = 30

// scoped are the packages that the limit holds for.
var scoped = []string{"podworkers", "syncpod", "syncpod/internal/...", "syncpod/loop"}

// largeScopes are the types above the limit, and how many methods they have. A number may
// only fall.
var largeScopes = map[string]int{"podworkers.Workers": 42}

// A scope is a struct type and the number of the methods that a pointer to it has.
type scope struct {
	name    string
	methods int
}

// scopes returns the struct types that a package declares, by the export data of what it imports.
func scopes(dir, path string, files []string, exports map[string]string) ([]scope, error) {
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	p, err := (&types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}).Check(path, fset, parsed, nil)
	if err != nil {
		return nil, err
	}
	var all []scope
	for _, name := range p.Scope().Names() {
		declared, isType := p.Scope().Lookup(name).(*types.TypeName)
		if !isType {
			continue
		}
		if _, isStruct := declared.Type().Underlying().(*types.Struct); isStruct {
			all = append(all, scope{strings.TrimPrefix(path, module+"/") + "." + name, types.NewMethodSet(types.NewPointer(declared.Type())).Len()})
		}
	}
	return all, nil
}

// largeFaults returns what breaks the limit, and what of the list of exceptions is not so.
func largeFaults(all []scope, large map[string]int) []string {
	var broken []string
	found := map[string]bool{}
	for _, s := range all {
		allowed, listed := large[s.name]
		found[s.name] = true
		switch {
		case listed && (s.methods != allowed || s.methods <= maxScope):
			broken = append(broken, fmt.Sprintf("%s has %d methods in its scope, and %d in the list: a number may only fall, and the list says the new one", s.name, s.methods, allowed))
		case !listed && s.methods > maxScope:
			broken = append(broken, fmt.Sprintf("%s has %d methods in its scope, at most %d: make smaller types whose methods see what they need", s.name, s.methods, maxScope))
		}
	}
	for name := range large {
		if !found[name] {
			broken = append(broken, name+" is in the list and not in the code")
		}
	}
	return broken
}

func TestScopesAreSmall(t *testing.T) {
	exports := map[string]string{}
	var own [][]string
	args := []string{"list", "-export", "-deps", "-f", `{{.ImportPath}}|{{.Export}}|{{.Dir}}|{{join .GoFiles " "}}`}
	for _, pattern := range scoped {
		args = append(args, "./"+pattern)
	}
	list := exec.Command("go", args...)
	list.Dir = root
	text, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		exports[fields[0]] = fields[1]
		if path, is := strings.CutPrefix(fields[0], module+"/"); is && matchAny(scoped, path) {
			own = append(own, fields)
		}
	}
	var all []scope
	for _, p := range own {
		declared, err := scopes(p[2], p[0], strings.Fields(p[3]), exports)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, declared...)
	}
	if len(all) < 50 {
		t.Fatalf("%d struct types, there must be more", len(all))
	}
	for _, fault := range largeFaults(all, largeScopes) {
		t.Error(fault)
	}
}

func TestLargeFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		all   []scope
		large map[string]int
		want  int
	}{
		"small":                  {[]scope{{"a", maxScope}}, nil, 0},
		"large":                  {[]scope{{"a", maxScope + 1}}, nil, 1},
		"large and listed":       {[]scope{{"a", maxScope + 1}}, map[string]int{"a": maxScope + 1}, 0},
		"larger than listed":     {[]scope{{"a", maxScope + 2}}, map[string]int{"a": maxScope + 1}, 1},
		"less than listed":       {[]scope{{"a", maxScope + 1}}, map[string]int{"a": maxScope + 2}, 1},
		"listed and small":       {[]scope{{"a", maxScope}}, map[string]int{"a": maxScope}, 1},
		"listed and not in code": {nil, map[string]int{"a": maxScope + 1}, 1},
	} {
		if got := largeFaults(tc.all, tc.large); len(got) != tc.want {
			t.Errorf("%s: %q, want %d faults", name, got, tc.want)
		}
	}
}

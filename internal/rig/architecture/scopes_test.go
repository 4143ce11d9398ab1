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
var scoped = []string{"podworkers", "syncpod", "syncpod/internal/...", "syncpod/agent", "syncpod/loop"}

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

// largeFaults returns what breaks the limit.
func largeFaults(all []scope) []string {
	var broken []string
	for _, s := range all {
		if s.methods > maxScope {
			broken = append(broken, fmt.Sprintf("%s has %d methods in its scope, at most %d: make smaller types whose methods see what they need", s.name, s.methods, maxScope))
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
	for _, fault := range largeFaults(all) {
		t.Error(fault)
	}
}

func TestLargeFaults(t *testing.T) {
	got := largeFaults([]scope{{"a", maxScope}, {"b", maxScope + 1}})
	if len(got) != 1 || !strings.HasPrefix(got[0], "b has 31 methods") {
		t.Errorf("%q, want a fault of b", got)
	}
}

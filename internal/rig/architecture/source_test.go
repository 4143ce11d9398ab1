package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A sourceFile is one Go file of the repository, whatever its build tags.
type sourceFile struct {
	path string // below the repository's top, with slashes
	ast  *ast.File
	fset *token.FileSet
}

func parseSource(name string, src any) (*sourceFile, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	return &sourceFile{filepath.ToSlash(name), f, fset}, err
}

func (f *sourceFile) dir() string { return path.Dir(f.path) }
func (f *sourceFile) test() bool  { return strings.HasSuffix(f.path, "_test.go") }

// broken is one line on what a node of the file breaks.
func (f *sourceFile) broken(n ast.Node, what, because string) string {
	return fmt.Sprintf("%s:%d: %s: %s", f.path, f.fset.Position(n.Pos()).Line, what, because)
}

// imports has the file's imports by the name that the file has for them.
func (f *sourceFile) imports() map[string]string {
	names := map[string]string{}
	for _, spec := range f.ast.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := packageName(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
	}
	return names
}

// packageName guesses a package's name from its path, as is right for all that
// the rules are about.
func packageName(imported string) string {
	name := path.Base(imported)
	if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" && path.Dir(imported) != "." {
		name = path.Base(path.Dir(imported))
	}
	return name
}

// moduleSources parses all Go files of the repository, those of modules within
// it included, test data not.
func moduleSources(t *testing.T) []*sourceFile {
	t.Helper()
	var files []*sourceFile
	must.Do(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != root && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"testdata", "vendor"}, d.Name())) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		f, err := parseSource(name, nil)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		f.path = filepath.ToSlash(rel)
		files = append(files, f)
		return err
	}))
	return files
}

// inits returns each func init.
func inits(f *sourceFile) []string {
	var broken []string
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			broken = append(broken, f.broken(fn, "func init", "an import must not do anything by itself"))
		}
	}
	return broken
}

func TestNoInit(t *testing.T) {
	for _, f := range moduleSources(t) {
		for _, b := range inits(f) {
			t.Error(b)
		}
	}
}

func TestInitRule(t *testing.T) {
	for src, want := range map[string]int{
		"package p\nfunc init() {}\nfunc init() {}":            2,
		"package p\ntype T int\nfunc (T) init() {}\nvar i int": 0,
	} {
		if got := inits(sourceOf(t, src)); len(got) != want {
			t.Errorf("%q: %q, want %d", src, got, want)
		}
	}
}

func sourceOf(t *testing.T, src string) *sourceFile {
	t.Helper()
	f := must.Get(parseSource("p/p.go", src))(t)
	return f
}

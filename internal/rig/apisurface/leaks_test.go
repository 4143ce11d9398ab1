package apisurface

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const repository = "github.com/podsync/podsync"

// Programs can name each type that an exported name shows, so that they can declare variables of it, implement it and
// write tests with it. PODSYNC_DOCUMENTS=all includes the other modules.
func TestNoExportedNameShowsAHiddenType(t *testing.T) {
	dirs := []string{root}
	if os.Getenv("PODSYNC_DOCUMENTS") == "all" {
		modules, err := filepath.Glob(filepath.Join(root, "modules", "*", "go.mod"))
		if err != nil || len(modules) < 5 {
			t.Fatalf("modules %q, %v", modules, err)
		}
		for _, file := range modules {
			dirs = append(dirs, filepath.Dir(file))
		}
	}
	for _, dir := range dirs {
		compiled := must.Get(Compiled(dir))(t)
		for _, pkg := range compiled {
			for _, leak := range Leaks(repository, pkg) {
				t.Error(leak)
			}
		}
	}
}

func TestLeaksRule(t *testing.T) {
	const text = `package p
type hidden struct{}
type Shown struct{ H hidden; h hidden; Fine []error }
func (*Shown) Method() map[string][]*hidden { return nil }
func (hidden) Exported() {}
type Interface interface { M(chan hidden); m(hidden) }
type Alias = hidden
type Generic[T interface{ *hidden }] struct{ Value T }
type Fine struct{ hidden }
type base struct{ Field hidden; field hidden }
type Promotes struct{ *base }
func Function(func(hidden)) (Generic[*hidden], error) { return Generic[*hidden]{}, nil }
var Variable [2]struct{ Field hidden }
const Constant = 1
`
	files := token.NewFileSet()
	file := must.Get(parser.ParseFile(files, "p.go", text, 0))(t)
	path := repository + "/p"
	pkg := must.Get((&types.Config{}).Check(path, files, []*ast.File{file}, nil))(t)
	var want []string
	for _, name := range []string{"Alias", "Function", "Generic", "Interface.M", "Promotes.Field", "Shown.H", "Shown.Method", "Variable.Field"} {
		want = append(want, path+"."+name+" shows "+path+".hidden")
	}
	if got := Leaks(repository, pkg); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Leaks("example.com/other", pkg); len(got) > 0 {
		t.Errorf("types of other repositories: %q", got)
	}
}

package architecture

import (
	"go/doc"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// notPublic are the names of directories whose packages no other program imports.
var notPublic = []string{"internal", "examples", "e2e"}

// withoutExample returns the public packages that have no example with an output. files are the files of all packages.
// An example without an output is compiled and never run.
func withoutExample(files []*sourceFile) []string {
	public, shown := map[string]bool{}, map[string]bool{}
	for _, f := range files {
		dir := f.dir()
		inside := strings.Split(dir, "/")
		switch {
		case slices.ContainsFunc(inside, func(name string) bool { return slices.Contains(notPublic, name) }) || f.ast.Name.Name == "main":
		case !f.test():
			public[dir] = true
		default:
			for _, e := range doc.Examples(f.ast) {
				shown[dir] = shown[dir] || e.Output != "" || e.EmptyOutput
			}
		}
	}
	var missing []string
	for dir := range public {
		if !shown[dir] {
			missing = append(missing, dir)
		}
	}
	slices.Sort(missing)
	return missing
}

// TestPublicPackagesHaveExamples checks the packages of all modules. The root package is documentation only.
func TestPublicPackagesHaveExamples(t *testing.T) {
	var files []*sourceFile
	for _, file := range repositoryFiles(t) {
		mode := parser.PackageClauseOnly
		switch example := strings.HasPrefix(path.Base(file), "example"); {
		case path.Ext(file) != ".go" || strings.Contains(file, "testdata/") || strings.HasSuffix(file, "_test.go") && !example:
			continue
		case example:
			mode = parser.ParseComments | parser.SkipObjectResolution
		}
		parsed := must.Get(parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, mode))(t)
		files = append(files, &sourceFile{path: file, ast: parsed})
	}
	if len(files) < 500 {
		t.Errorf("%d files are found", len(files))
	}
	for _, dir := range withoutExample(files) {
		if dir != "." {
			t.Errorf("%s has no example with an output in a file example*_test.go", dir)
		}
	}
}

func TestExampleRule(t *testing.T) {
	file := func(name, text string) *sourceFile {
		parsed := must.Get(parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments))(t)
		return &sourceFile{path: name, ast: parsed}
	}
	got := withoutExample([]*sourceFile{
		file("ran/a.go", "package ran"),
		file("ran/example_test.go", "package ran_test\nfunc Example() {\n\tprintln()\n\t// Output: 1\n}"),
		file("silent/a.go", "package silent"),
		file("silent/example_test.go", "package silent_test\nfunc Example() {\n\tprintln()\n\t// Output:\n}"),
		file("compiled/a.go", "package compiled"),
		file("compiled/example_test.go", "package compiled_test\nfunc Example() {}"),
		file("none/a.go", "package none"),
		file("none/cmd/a.go", "package main"),
		file("none/internal/a.go", "package hidden"),
		file("examples/a/b/b.go", "package b"),
	})
	if want := []string{"compiled", "none"}; !slices.Equal(got, want) {
		t.Errorf("without an example: %q, want %q", got, want)
	}
}

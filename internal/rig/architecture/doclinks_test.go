package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// docLink matches a link to a name of the same package in a comment, such as [Config] or [Config.Root].
var docLink = regexp.MustCompile(`(?:^|[\s("])\[\*?([A-Z]\w+)(?:\.([A-Z]\w*))?\](?:[\s.,;:)']|$)`)

// exported returns the names that a file declares at package level, and for each its methods and fields.
func exported(f *ast.File) map[string][]string {
	names := map[string][]string{}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv == nil {
				names[name] = append(names[name], "")
			} else if owner := rootOf(d.Recv.List[0].Type); owner != nil {
				names[owner.Name] = append(names[owner.Name], name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						names[name.Name] = append(names[name.Name], "")
					}
				case *ast.TypeSpec:
					names[spec.Name.Name] = append(names[spec.Name.Name], members(spec)...)
				}
			}
		}
	}
	return names
}

// anyMember stands for the members of an alias, which another package declares.
const anyMember = "*"

// members returns the fields of a struct, or the methods of an interface, without those of embedded types.
func members(spec *ast.TypeSpec) []string {
	if spec.Assign.IsValid() {
		return []string{anyMember}
	}
	all := []string{""}
	ast.Inspect(spec.Type, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok {
			return true
		}
		for _, name := range field.Names {
			all = append(all, name.Name)
		}
		return true
	})
	return all
}

// brokenLinks returns the links of comments to names that the package does not have.
func brokenLinks(comments []string, names map[string][]string) (broken []string) {
	for _, text := range comments {
		for _, m := range docLink.FindAllStringSubmatch(text, -1) {
			if got, ok := names[m[1]]; !ok || m[2] != "" && !slices.Contains(got, m[2]) && !slices.Contains(got, anyMember) {
				broken = append(broken, strings.Trim(m[0], " \t(\".,;:)'"))
			}
		}
	}
	return broken
}

// TestDocLinks checks that comments link only to names that exist: a renamed or unexported name stays in comments unnoticed.
func TestDocLinks(t *testing.T) {
	comments, names := map[string][]string{}, map[string]map[string][]string{}
	for _, file := range repositoryFiles(t) {
		if path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "testdata/") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ParseComments|parser.SkipObjectResolution)
		must.Do(t, err)
		if f.Name.Name == "main" {
			continue // usage texts have brackets
		}
		dir := path.Dir(file)
		for _, group := range f.Comments {
			comments[dir] = append(comments[dir], strings.Split(group.Text(), "\n")...)
		}
		if names[dir] == nil {
			names[dir] = map[string][]string{}
		}
		for name, members := range exported(f) {
			names[dir][name] = append(names[dir][name], members...)
		}
	}
	for dir, all := range comments {
		for _, link := range brokenLinks(all, names[dir]) {
			t.Errorf("%s: a comment links to %s, which the package does not have", dir, link)
		}
	}
}

func TestDocLinksRule(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", "package p\ntype Config struct{ Root string }\nfunc (c *Config) Check() {}\nfunc New() {}\ntype Old = other.Config", 0)
	must.Do(t, err)
	for text, want := range map[string]int{
		"See [Config], [Config.Root] and [Config.Check].": 0,
		"[New] returns a *[Config]":                       0,
		"See [Old.Root].":                                 0,
		"See [Missing].":                                  1,
		"[Config.Missing] is unset.":                      1,
		"a slice x[Missing] is no link":                   0,
	} {
		if got := brokenLinks([]string{text}, exported(f)); len(got) != want {
			t.Errorf("%q: %q, want %d", text, got, want)
		}
	}
}

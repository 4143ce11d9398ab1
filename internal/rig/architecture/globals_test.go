package architecture

import (
	"go/ast"
	"go/token"
	"slices"
	"testing"
)

const noState = "two users of the library in one process must not meet"

// written returns the names that a package's files assign to, count up or take
// the address of, by whatever path of fields and indexes.
func written(files []*sourceFile) map[string]bool {
	names := map[string]bool{}
	note := func(e ast.Expr) {
		if id := rootOf(e); id != nil {
			names[id.Name] = true
		}
	}
	for _, f := range files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, e := range n.Lhs {
						note(e)
					}
				}
			case *ast.IncDecStmt:
				note(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					note(n.X)
				}
			}
			return true
		})
	}
	return names
}

func rootOf(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.IndexExpr:
		return rootOf(e.X)
	case *ast.SelectorExpr:
		return rootOf(e.X)
	case *ast.StarExpr:
		return rootOf(e.X)
	case *ast.ParenExpr:
		return rootOf(e.X)
	}
	return nil
}

// globals returns the package-level variables of one package that can change:
// all but tables and values made at the start that nothing writes to.
func globals(files []*sourceFile) []string {
	names := written(files)
	fixed := func(name string, value ast.Expr) bool { return !names[name] && settled(value) }
	var broken []string
	for _, f := range files {
		broken = append(broken, variables(f, fixed, noState)...)
	}
	return broken
}

// settled is true of a literal and of a value made by a call that gives the same
// each time.
func settled(value ast.Expr) bool {
	switch v := value.(type) {
	case *ast.BasicLit, *ast.CompositeLit:
		return true
	case *ast.CallExpr:
		return calls(v, "errors", "New") || calls(v, "status", "Error") || calls(v, "regexp", "MustCompile")
	}
	return false
}

// processWide are names whose use reaches beyond the library's own values.
var processWide = map[string][]string{
	"os":       {"Args", "Environ", "Exit", "Getenv", "LookupEnv", "Setenv", "Stderr", "Stdin", "Stdout"},
	"net/http": {"DefaultClient", "DefaultServeMux", "Get", "Handle", "HandleFunc", "ListenAndServe", "Post"},
	"fmt":      {"Print", "Printf", "Println"},
}

func processUses(f *sourceFile) []string {
	names := f.imports()
	var broken []string
	ast.Inspect(f.ast, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := s.X.(*ast.Ident); ok && slices.Contains(processWide[names[id.Name]], s.Sel.Name) {
			broken = append(broken, f.broken(s, id.Name+"."+s.Sel.Name, "the process belongs to the embedder"))
		}
		return true
	})
	return broken
}

func TestNoGlobals(t *testing.T) {
	packages := map[string][]*sourceFile{}
	for _, f := range moduleSources(t) {
		if !f.test() && matchAny(library, f.dir()) {
			packages[f.dir()] = append(packages[f.dir()], f)
		}
	}
	if len(packages) < 6 {
		t.Errorf("only %d packages were looked at", len(packages))
	}
	for _, files := range packages {
		broken := globals(files)
		for _, f := range files {
			broken = append(broken, processUses(f)...)
		}
		for _, b := range broken {
			t.Error(b)
		}
	}
}

func TestGlobalsRule(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		want      bool
	}{
		{"an error", `var a = errors.New("a")`, true},
		{"an expression", "var a = regexp.MustCompile(`x`)", true},
		{"a table", `var a = []int{1}; func f() int { return a[0] }`, true},
		{"an assertion", `var _ I = T{}`, true},
		{"another variable of the same form", `var a = []int{1}; func f() { b := a; b = nil }`, true},
		{"no value", `var a int`, false},
		{"a counter", `var a atomic.Int64`, false},
		{"a map to fill", `var a = map[string]int{}; func f() { a["x"] = 1 }`, false},
		{"a table that grows", `var a = []int{1}; func f() { a = append(a, 2) }`, false},
		{"a field", `var a = T{}; func f() { (a.x)[0].y++ }`, false},
		{"an address", `var a = T{}; func f() *T { return &a }`, false},
		{"a registry", `var a = NewRegistry()`, false},
		{"a function", `var a = func() {}`, false},
	} {
		if got := globals([]*sourceFile{sourceOf(t, "package p\n"+tt.src)}); (len(got) == 0) != tt.want {
			t.Errorf("%s: %q, allowed: %t", tt.name, got, tt.want)
		}
	}
}

func TestGlobalsRuleSeesTheWholePackage(t *testing.T) {
	got := globals([]*sourceFile{
		sourceOf(t, "package p\nvar a = []int{1}"),
		sourceOf(t, "package p\nfunc f() { a[0] = 2 }"),
	})
	if want := []string{"p/p.go:2: var a: " + noState}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestProcessRule(t *testing.T) {
	for src, want := range map[string]int{
		`import "os"; func f() { os.Exit(1); os.Getenv("A") }`:          2,
		`import sys "os"; func f() { sys.Exit(1) }`:                     1,
		`import "net/http"; func f() { http.HandleFunc("/", nil) }`:     1,
		`import "os"; func f() { os.ReadFile("f") }`:                    0,
		`type t struct{}; func (t) Exit(){}; func f(os t) { os.Exit()}`: 0,
	} {
		if got := processUses(sourceOf(t, "package p\n"+src)); len(got) != want {
			t.Errorf("%s: %q, want %d", src, got, want)
		}
	}
}

package apisurface

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// linesOf are the lines of a package m/p with this source.
func linesOf(t *testing.T, src string) []string {
	t.Helper()
	fset := token.NewFileSet()
	f := must.Get(parser.ParseFile(fset, "p.go", "package p\n"+src, 0))(t)
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	pkg := must.Get(conf.Check("m/p", fset, []*ast.File{f}, nil))(t)
	return Lines("m", pkg)
}

func TestLines(t *testing.T) {
	for _, tt := range []struct{ src, want string }{
		{`const A, b = 1, 2; var C error; func F(a, b int, c ...string) (n int, err error) { return }; func g() {}`,
			"p.A const untyped int = 1\np.C var error\np.F func(int, int, ...string) (int, error)"},
		{`type T struct { A, b int; C string ` + "`json:\"c\"`" + `}; func (T) M() {}; func (*T) N(T) {}; func (T) o() {}`,
			"p.T type struct comparable\np.T.A field int\np.T.C field string `json:\"c\"`\np.T.M func (T)()\np.T.N func (*T)(T)"},
		{`import "time"; type E int; const A, B E = iota, 2; type S string; const C S = "c"; const D = time.Second`,
			"p.A const E\np.B const E\np.C const S = \"c\"\np.D const time.Duration = 1000000000\np.E type int\np.S type string"},
		{`type T struct { F func() }`, "p.T type struct\np.T.F field func()"},
		{`import "io"; type I interface { io.Closer; B(p []byte); a() }`,
			"p.I type interface {B, Close, a}\np.I.B method([]byte)\np.I.Close method() error"},
		{`type e struct { A int }; func (e) M() {}; type E struct { B int }; func (E) N() {}; type T struct { e; *E }`,
			"p.E type struct comparable\np.E.B field int\np.E.N func (E)()\n" +
				"p.T type struct comparable\np.T.A field int\np.T.E embedded *E\np.T.M func (T)()"},
		{`type T[K comparable] struct{}; func F[K any](T[string]) (k K) { return }; type A = T[int]; type S string`,
			"p.A type = T[int]\np.F func[K any](T[string]) K\np.S type string\np.T type[K comparable] struct comparable"},
	} {
		if got := linesOf(t, tt.src); strings.Join(got, "\n") != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.src, strings.Join(got, "\n"), tt.want)
		}
	}
}

// What breaks a user's program is gone, and what does not is not.
func TestGone(t *testing.T) {
	const was = `type T struct { A int }; func (*T) M(int) {}; type I interface { A() }; func F() {}`
	for _, tt := range []struct {
		name, is, gone string
	}{
		{"nothing", was, ""},
		{"more", was + `; type U int; func G() {}; func (*T) N() {}`, ""},
		{"another field", strings.Replace(was, "A int", "A int; B string", 1), ""},
		{"names of parameters", strings.Replace(was, "M(int)", "M(seconds int)", 1), ""},
		{"a removal", strings.Replace(was, "func F() {}", "", 1), "p.F func()"},
		{"another type of a field", strings.Replace(was, "A int", "A string", 1), "p.T.A field int"},
		{"another result", strings.Replace(was, "F() {}", "F() (err error) { return }", 1), "p.F func()"},
		{"another method to have", strings.Replace(was, "A() }", "A(); B() }", 1), "p.I type interface {A}"},
		{"a field that cannot be compared", strings.Replace(was, "A int", "A int; B []int", 1), "p.T type struct comparable"},
	} {
		if got := strings.Join(Gone(linesOf(t, was), linesOf(t, tt.is)), "\n"); got != tt.gone {
			t.Errorf("%s: gone is %q, want %q", tt.name, got, tt.gone)
		}
	}
}

func TestUnannounced(t *testing.T) {
	changelog := func(text string) string {
		return "# Changes\n\n## Next\n\n### Added\n\n- `p.F`\n\n" + text + "\n\n## v0.2.0 (2027-01-02)\n\n### Breaking\n\n- `p` has gone\n\n## v0.1.0\n\nThe first.\n"
	}
	gone := []string{"p.F func()", "p.T.A field int", "p.T.M func (T)()", "p/q.F func()"}
	for _, tt := range []struct {
		changelog string
		want      int
	}{
		{"", 4},
		{changelog(""), 4},
		{changelog("### Breaking\n\n- `p.F` is gone."), 3},
		{changelog("### Breaking\n\n- `p.T` is gone, and `p.f`.\n- `q.F`, too."), 2},
		{changelog("### Breaking\n\n- Package `p` is `p/q`"), 0},
		{changelog("### Breaking\n\n- p.F is gone"), 4},
		{changelog("### Breaking\n\n- `p.T.M`\n\n### Fixed\n\n- `p.F`"), 3},
	} {
		if got := Unannounced(gone, Announced(tt.changelog)); len(got) != tt.want {
			t.Errorf("%s\nleaves unannounced %q, want %d", tt.changelog, got, tt.want)
		}
	}
	if got := Versions(changelog("")); !slices.Equal(got, []string{"v0.2.0", "v0.1.0"}) {
		t.Errorf("releases %q, want %q", got, []string{"v0.2.0", "v0.1.0"})
	}
}

func TestLatest(t *testing.T) {
	for _, tt := range []struct {
		want     string
		versions []string
	}{
		{"", nil}, {"v0.1.0", []string{"v0.1.0"}}, {"v0.10.0", []string{"v0.9.1", "v0.10.0", "v0.2.0"}}, {"v1.0.0", []string{"v0.10.0", "v1.0.0"}},
	} {
		if got := Latest(tt.versions); got != tt.want {
			t.Errorf("of %q: %s, want %s", tt.versions, got, tt.want)
		}
	}
	for _, s := range []string{"Next", "v1", "v1.2", "1.2.3", "v1.02.3", "v1.2.3-rc.1"} {
		if parseVersion(s) != nil {
			t.Errorf("%s is a version", s)
		}
	}
}

func TestUncommented(t *testing.T) {
	for src, want := range map[string]string{
		"func F() {}; func g() {}": "F",
		"// F does.\nfunc F() {}":  "",
		"type t int\nfunc (t) M() {}\n// T is.\ntype T int\nfunc (*T) M() {}\nfunc (T) n() {}": "T.M",
		"// T is.\ntype T[K any] struct{}\nfunc (t *T[K]) M() {}":                              "T.M",
		"type T int": "T",
		"// They are.\ntype (\n T int\n// U is.\nU int\n)":                  "T",
		"const A = 1\nvar B int":                                            "A B",
		"// They are.\nconst (\nA = 1\nB = 2\n)":                            "",
		"const (\nA = 1\n// B is.\nB = 2\nC = 3\nD = 4 // is\n)":            "A C",
		"// T is.\ntype T struct { A, B int; c int }":                       "",
		"// Config is.\ntype Config struct {\n// A is.\nA int\nB, c int\n}": "Config.B",
		"// Config is.\ntype Config struct {\nA int // as B\nB int\n}":      "",
		"// Config is.\ntype Config interface { A() }":                      "",
	} {
		f := must.Get(parser.ParseFile(token.NewFileSet(), "p.go", "package p\n"+src, parser.ParseComments))(t)
		if got := strings.Join(Uncommented(f), " "); got != want {
			t.Errorf("%s\n%q, want %q", src, got, want)
		}
	}
}

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// source is a file that mutants are made of.
type source struct {
	path string
	// name is the name of its package.
	name string
	text []byte
	// places are all possible mutants of the file.
	places []*mutant
	// changes insert the mutants into the file.
	changes []change
}

// mutant is a change of a file that may make it wrong.
type mutant struct {
	// number selects the mutant in the environment of a process.
	number int
	path   string
	line   int
	// function is its function, such as Set.Sync, and says describes its change.
	function, says string
}

func (m *mutant) String() string {
	const most = 100
	says := m.says
	if len(says) > most {
		says = says[:most] + "…"
	}
	return fmt.Sprintf("%s:%d %s: %s", m.path, m.line, m.function, says)
}

// read finds the places of a file, which is named by its path below the root. Their mutants
// are numbered from first on.
func read(root, path string, first int) (*source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Rel(root, path); err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := &source{path: path, name: file.Name.Name, text: text}
	for _, d := range file.Decls {
		f := finder{source: s, files: files, first: first}
		if fn, ok := d.(*ast.FuncDecl); ok {
			f.function = f.nameOf(fn)
		}
		ast.Inspect(d, func(n ast.Node) bool { f.find(n); return true })
	}
	return s, nil
}

type finder struct {
	*source
	files    *token.FileSet
	first    int
	function string
}

// nameOf returns the name of a function, prefixed with its receiver.
func (f finder) nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	return strings.TrimPrefix(f.of(fn.Recv.List[0].Type), "*") + "." + fn.Name.Name
}

func (f finder) find(n ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		f.force(n.Cond)
	case *ast.SwitchStmt:
		if n.Tag == nil {
			f.forceCases(n.Body)
		}
	case *ast.BinaryExpr:
		if n.Op == token.LAND || n.Op == token.LOR {
			f.force(n.X)
			f.force(n.Y)
		}
	case *ast.ReturnStmt:
		for _, e := range n.Results {
			if b, ok := e.(*ast.BinaryExpr); ok && b.Op.Precedence() <= token.EQL.Precedence() {
				f.force(b)
			}
		}
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.CommClause:
		f.statements(n.Body)
	}
}

func (f finder) forceCases(body *ast.BlockStmt) {
	for _, c := range body.List {
		for _, e := range c.(*ast.CaseClause).List {
			f.force(e)
		}
	}
}

// force makes a condition true or false. The condition stays in the code, so that its variables are still used.
func (f finder) force(cond ast.Expr) {
	old := f.of(cond)
	yes, no := f.add(cond, "true for "+old), f.add(cond, "false for "+old)
	f.change(cond, fmt.Sprintf("(%s || %s && (", yes.is(), no.isNot()), "))")
}

func (f finder) statements(list []ast.Stmt) {
	var swapped *mutant // a statement with the one before it
	for i, s := range list {
		if !movable(s, i+1 == len(list)) {
			continue
		}
		skipped, before := []*mutant{f.add(s, "deleted: "+f.of(s))}, ""
		if swapped != nil {
			skipped = append(skipped, swapped)
			swapped = nil
		}
		if i+1 < len(list) && movable(list[i+1], i+2 == len(list)) && !independent(s, list[i+1]) {
			next := list[i+1]
			swapped = f.add(s, "swapped: "+f.of(s)+" and "+f.of(next))
			skipped = append(skipped, swapped)
			before = fmt.Sprintf("if %s {\n%s\n%s\n}\n", swapped.is(), f.of(next), f.of(s))
		}
		var kept []string
		for _, m := range skipped {
			kept = append(kept, m.isNot())
		}
		f.change(s, before+"if "+strings.Join(kept, " && ")+" { ", " }")
	}
}

// movable reports whether a statement can be left out or moved: it declares nothing, and ends
// nothing but itself.
func movable(s ast.Stmt, last bool) bool {
	switch s := s.(type) {
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt:
		return true
	case *ast.IfStmt:
		return s.Else == nil || !last // the end of a function cannot be conditional
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE
	}
	return false
}

func (f finder) at(p token.Pos) int { return f.files.Position(p).Offset }

func (f finder) of(n ast.Node) string { return string(f.text[f.at(n.Pos()):f.at(n.End())]) }

func (f finder) add(at ast.Node, says string) *mutant {
	m := &mutant{f.first + len(f.places), f.path, f.files.Position(at.Pos()).Line, f.function, strings.Join(strings.Fields(says), " ")}
	f.places = append(f.places, m)
	return m
}

// change puts text around a node.
func (f finder) change(n ast.Node, before, after string) {
	f.changes = append(f.changes, change{f.at(n.Pos()), f.at(n.End()), before, after})
}

// draw takes mutants in random order, each once.
func draw(all []*mutant, seed uint64) []*mutant {
	all = slices.Clone(all)
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"strings"
)

// source is a file that mutants are made of.
type source struct {
	path string
	text []byte
	// places are all that can be done to the file.
	places []mutant
}

// mutant replaces the text from begin to end of a file.
type mutant struct {
	source     *source
	line       int
	begin, end int
	text       string
	// says is what the mutant does, in words.
	says string
}

func (m mutant) String() string { return fmt.Sprintf("%s:%d: %s", m.source.path, m.line, m.says) }

// apply returns the file with the change.
func (m mutant) apply() []byte {
	old := m.source.text
	return append(append(append([]byte{}, old[:m.begin]...), m.text...), old[m.end:]...)
}

// read finds the places of a file.
func read(path string) (*source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := &source{path: path, text: text}
	f := finder{s, files}
	ast.Inspect(file, func(n ast.Node) bool { f.find(n); return true })
	return s, nil
}

type finder struct {
	*source
	files *token.FileSet
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
	}
}

func (f finder) forceCases(body *ast.BlockStmt) {
	for _, c := range body.List {
		for _, e := range c.(*ast.CaseClause).List {
			f.force(e)
		}
	}
}

// force has a condition be true or false. It stays in the code, so that what it names is used.
func (f finder) force(cond ast.Expr) {
	old := f.of(cond)
	f.add(cond, cond, "(true || ("+old+"))", "true for "+old)
	f.add(cond, cond, "(false && ("+old+"))", "false for "+old)
}

func (f finder) statements(list []ast.Stmt) {
	for i, s := range list {
		if !movable(s) {
			continue
		}
		f.add(s, s, "{}", "deleted: "+f.of(s))
		if i+1 < len(list) && movable(list[i+1]) {
			next := list[i+1]
			between := string(f.text[f.at(s.End()):f.at(next.Pos())])
			f.add(s, next, f.of(next)+between+f.of(s), "swapped: "+f.of(s)+" and "+f.of(next))
		}
	}
}

// movable reports whether a statement can be left out or moved: it declares nothing, and ends
// nothing but itself.
func movable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.IfStmt:
		return true
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE
	}
	return false
}

func (f finder) at(p token.Pos) int { return f.files.Position(p).Offset }

func (f finder) of(n ast.Node) string { return string(f.text[f.at(n.Pos()):f.at(n.End())]) }

func (f finder) add(from, to ast.Node, text, says string) {
	const most = 100
	if says = strings.Join(strings.Fields(says), " "); len(says) > most {
		says = says[:most] + "…"
	}
	f.places = append(f.places, mutant{f.source, f.files.Position(from.Pos()).Line, f.at(from.Pos()), f.at(to.End()), text, says})
}

// draw takes mutants in random order, each once.
func draw(sources []*source, seed uint64) []mutant {
	var all []mutant
	for _, s := range sources {
		all = append(all, s.places...)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// Statements are independent only if they are sure to be.
func TestIndependent(t *testing.T) {
	for both, want := range map[string]bool{
		"a = 1; b = 2":             true,
		"p.a = q.b; p.c, d = 2, x": true,
		"p.a = max(q.b, 1); p.c++": true,
		"a = 1; a = 2":             false,
		"a = 1; b = a":             false,
		"b = a; a = 1":             false,
		"p.a = 1; q.a = 2":         false,
		"p.a = 1; p = q":           false,
		"a = 1; b = f()":           false,
		"a = 1; b = <-c":           false,
		"a = 1; b[a] = 2":          false,
		"c[1] = 1; b = 2":          false,
		"*p = 1; b = 2":            false,
		"a = 1; b = func() {}":     false,
		"a = 1; if x { b = 2 }":    false,
		"a = 1; f()":               false,
		"a = 1; b = append(b, 1)":  false,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() {"+both+"}", 0)
		if err != nil {
			t.Fatal(err)
		}
		list := file.Decls[0].(*ast.FuncDecl).Body.List
		if got := independent(list[0], list[1]); got != want {
			t.Errorf("%s: %v, want %v", both, got, want)
		}
	}
}

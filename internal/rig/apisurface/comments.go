package apisurface

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"unicode"
)

// Uncommented returns the exported names that a file declares without a comment.
// A comment on a group of constants or variables counts for each.
func Uncommented(f *ast.File) []string {
	var names []string
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if owner, ok := receiver(d); ok && d.Name.IsExported() && d.Doc == nil {
				names = append(names, strings.TrimPrefix(owner+"."+d.Name.Name, "."))
			}
		case *ast.GenDecl:
			names = append(names, uncommentedSpecs(d)...)
		}
	}
	return names
}

// receiver is the type that a method belongs to, "" for a function, and whether users
// see it.
func receiver(d *ast.FuncDecl) (string, bool) {
	if d.Recv == nil {
		return "", true
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch index := t.(type) {
	case *ast.IndexExpr:
		t = index.X
	case *ast.IndexListExpr:
		t = index.X
	}
	id, ok := t.(*ast.Ident)
	return id.Name, ok && id.IsExported()
}

func uncommentedSpecs(d *ast.GenDecl) []string {
	var names []string
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for _, id := range spec.Names {
				if id.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					names = append(names, id.Name)
				}
			}
		case *ast.TypeSpec:
			if !spec.Name.IsExported() {
				continue
			}
			if spec.Doc == nil && (d.Doc == nil || d.Lparen != token.NoPos) {
				names = append(names, spec.Name.Name)
			}
			names = append(names, uncommentedFields(spec)...)
		}
	}
	return names
}

// uncommentedFields returns the fields of a configuration that no comment names: each option needs its
// meaning and its default. Fields of other structs need no comment.
func uncommentedFields(spec *ast.TypeSpec) []string {
	t, ok := spec.Type.(*ast.StructType)
	if !ok || !strings.HasSuffix(spec.Name.Name, "Config") {
		return nil
	}
	var said strings.Builder
	for _, f := range t.Fields.List {
		said.WriteString(f.Doc.Text() + f.Comment.Text())
	}
	words := strings.FieldsFunc(said.String(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	var names []string
	for _, f := range t.Fields.List {
		for _, id := range f.Names {
			if id.IsExported() && f.Doc == nil && f.Comment == nil && !slices.Contains(words, id.Name) {
				names = append(names, spec.Name.Name+"."+id.Name)
			}
		}
	}
	return names
}

package apisurface

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// Leaks returns the exported names of a package that show a type of this repository which other programs cannot name:
// an unexported type, or one of an internal package. module is the path of the repository.
func Leaks(module string, pkg *types.Package) []string {
	l := &leaks{module: module}
	for _, name := range pkg.Scope().Names() {
		if obj := pkg.Scope().Lookup(name); obj.Exported() {
			l.object(pkg.Path()+"."+name, obj)
		}
	}
	slices.Sort(l.found)
	return slices.Compact(l.found)
}

type leaks struct {
	module string
	found  []string
}

func (l *leaks) object(name string, obj types.Object) {
	declared, isType := obj.(*types.TypeName)
	if !isType {
		l.visit(name, obj.Type())
		return
	}
	if declared.IsAlias() {
		l.visit(name, types.Unalias(obj.Type()))
		return
	}
	named := obj.Type().(*types.Named)
	for param := range named.TypeParams().TypeParams() {
		l.visit(name, param.Constraint())
	}
	l.visit(name, named.Underlying())
	for selection := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		if m := selection.Obj(); m.Exported() {
			l.visit(name+"."+m.Name(), m.Type())
		}
	}
}

// visit looks for hidden types in the type of an exported name, but not behind other names.
func (l *leaks) visit(name string, t types.Type) {
	switch t := t.(type) {
	case *types.Named:
		l.named(name, t.Obj())
		for arg := range t.TypeArgs().Types() {
			l.visit(name, arg)
		}
	case *types.Alias:
		l.named(name, t.Obj())
	case *types.Map:
		l.visit(name, t.Key())
		l.visit(name, t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays and channels
		l.visit(name, t.Elem())
	case *types.Signature:
		for param := range t.TypeParams().TypeParams() {
			l.visit(name, param.Constraint())
		}
		l.visit(name, t.Params())
		l.visit(name, t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			l.visit(name, v.Type())
		}
	case *types.Struct:
		for field := range t.Fields() {
			switch {
			case field.Exported():
				l.visit(name+"."+field.Name(), field.Type())
			case field.Embedded(): // programs see its exported fields
				embedded := field.Type()
				if pointer, ok := embedded.(*types.Pointer); ok {
					embedded = pointer.Elem()
				}
				l.visit(name, embedded.Underlying())
			}
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			if m.Exported() {
				l.visit(name+"."+m.Name(), m.Type())
			}
		}
		for embedded := range t.EmbeddedTypes() {
			l.visit(name, embedded)
		}
	case *types.Union:
		for term := range t.Terms() {
			l.visit(name, term.Type())
		}
	}
}

func (l *leaks) named(name string, shown *types.TypeName) {
	if shown.Pkg() == nil || !strings.HasPrefix(shown.Pkg().Path()+"/", l.module+"/") {
		return
	}
	internal := slices.Contains(strings.Split(shown.Pkg().Path(), "/"), "internal")
	if internal || !shown.Exported() {
		l.found = append(l.found, fmt.Sprintf("%s shows %s.%s", name, shown.Pkg().Path(), shown.Name()))
	}
}

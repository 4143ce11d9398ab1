package apisurface

import (
	"fmt"
	"go/constant"
	"go/types"
	"slices"
	"strings"
)

// A printer writes one package's lines. A line begins with the name that it is
// about, as package.Name or package.Type.Member, where a package is its path below the
// module.
type printer struct {
	module string
	pkg    *types.Package
	lines  []string
}

// Lines returns a line for each exported name of a package of the module, sorted.
func Lines(module string, pkg *types.Package) []string {
	p := &printer{module: module, pkg: pkg}
	for _, name := range pkg.Scope().Names() {
		if obj := pkg.Scope().Lookup(name); obj.Exported() {
			p.object(obj)
		}
	}
	slices.Sort(p.lines)
	return slices.Compact(p.lines)
}

func (p *printer) add(name, format string, args ...any) {
	p.lines = append(p.lines, p.short(p.pkg)+"."+name+" "+fmt.Sprintf(format, args...))
}

// short is a package of the module by its path below that, and others by their own.
func (p *printer) short(pkg *types.Package) string {
	return strings.TrimPrefix(pkg.Path(), p.module+"/")
}

func (p *printer) text(t types.Type) string {
	return types.TypeString(t, func(pkg *types.Package) string {
		if pkg == p.pkg {
			return ""
		}
		return p.short(pkg)
	})
}

// signature is a function's type without the names of its parameters, on which no
// program depends.
func (p *printer) signature(s *types.Signature) string {
	bare := types.NewSignatureType(nil, nil, nil, unnamed(s.Params()), unnamed(s.Results()), s.Variadic())
	return typeParams(s.TypeParams(), p) + strings.TrimPrefix(p.text(bare), "func")
}

func unnamed(vars *types.Tuple) *types.Tuple {
	var list []*types.Var
	for v := range vars.Variables() {
		list = append(list, types.NewParam(v.Pos(), v.Pkg(), "", v.Type()))
	}
	return types.NewTuple(list...)
}

func typeParams(params *types.TypeParamList, p *printer) string {
	var list []string
	for t := range params.TypeParams() {
		list = append(list, t.Obj().Name()+" "+p.text(t.Constraint()))
	}
	if list == nil {
		return ""
	}
	return "[" + strings.Join(list, ", ") + "]"
}

func (p *printer) object(obj types.Object) {
	switch obj := obj.(type) {
	case *types.Const:
		p.add(obj.Name(), "const %s%s", p.text(obj.Type()), p.value(obj))
	case *types.Var:
		p.add(obj.Name(), "var %s", p.text(obj.Type()))
	case *types.Func:
		p.add(obj.Name(), "func%s", p.signature(obj.Signature()))
	case *types.TypeName:
		p.typeName(obj)
	}
}

// value returns the value of a constant, except for the numbers of an enumeration of the
// package: programs may rely only on their names.
func (p *printer) value(c *types.Const) string {
	if named, ok := c.Type().(*types.Named); ok && named.Obj().Pkg() == p.pkg && c.Val().Kind() == constant.Int {
		return ""
	}
	return " = " + c.Val().ExactString()
}

func (p *printer) typeName(obj *types.TypeName) {
	if obj.IsAlias() {
		p.add(obj.Name(), "type = %s", p.text(types.Unalias(obj.Type())))
		return
	}
	named := obj.Type().(*types.Named)
	params := typeParams(named.TypeParams(), p)
	switch under := named.Underlying().(type) {
	case *types.Struct:
		p.add(obj.Name(), "type%s struct%s", params, comparability(named))
		p.fields(obj.Name(), under)
	case *types.Interface:
		p.add(obj.Name(), "type%s interface {%s}", params, methodNames(under))
		p.interfaceMethods(obj.Name(), under)
		return
	default:
		p.add(obj.Name(), "type%s %s", params, p.text(under))
	}
	p.methods(named)
}

// comparability says that values can be compared with ==, which ends if a field that
// cannot be is added.
func comparability(t types.Type) string {
	if types.Comparable(t) {
		return " comparable"
	}
	return ""
}

// methodNames returns the names of all methods, because a type that implements an interface no longer does so after the
// interface gets another method.
func methodNames(t *types.Interface) string {
	var names []string
	for m := range t.Methods() {
		names = append(names, m.Name())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (p *printer) interfaceMethods(owner string, t *types.Interface) {
	for m := range t.Methods() {
		if m.Exported() {
			p.add(owner+"."+m.Name(), "method%s", p.signature(m.Signature()))
		}
	}
}

// fields has those of embedded structs whose names are not exported, too: they are
// reached through the outer struct. Tags are what files are made of.
func (p *printer) fields(owner string, t *types.Struct) {
	for i := range t.NumFields() {
		f, tag := t.Field(i), t.Tag(i)
		if inner, ok := f.Type().Underlying().(*types.Struct); ok && f.Embedded() && !f.Exported() {
			p.fields(owner, inner)
		}
		if !f.Exported() {
			continue
		}
		kind := "field"
		if f.Embedded() {
			kind = "embedded"
		}
		if tag != "" {
			tag = " `" + tag + "`"
		}
		p.add(owner+"."+f.Name(), "%s %s%s", kind, p.text(f.Type()), tag)
	}
}

// methods has those of embedded fields whose names are not exported, too.
func (p *printer) methods(named *types.Named) {
	values := types.NewMethodSet(named)
	for selection := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		m := selection.Obj().(*types.Func)
		if !m.Exported() || promoted(named, selection) {
			continue
		}
		receiver := "*" + named.Obj().Name()
		if values.Lookup(m.Pkg(), m.Name()) != nil {
			receiver = named.Obj().Name()
		}
		p.add(named.Obj().Name()+"."+m.Name(), "func (%s)%s", receiver, p.signature(m.Signature()))
	}
}

// promoted reports whether a method is promoted from an embedded field that has its own line.
func promoted(named *types.Named, selection *types.Selection) bool {
	path := selection.Index()
	return len(path) > 1 && named.Underlying().(*types.Struct).Field(path[0]).Exported()
}

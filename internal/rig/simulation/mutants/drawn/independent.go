package main

import (
	"go/ast"
	"go/token"
)

// independent reports whether the order of two statements certainly does not matter: neither calls a function, and
// neither assigns to a variable that the other one uses.
func independent(a, b ast.Stmt) bool {
	inA, inB := namesOf(a), namesOf(b)
	if inA == nil || inB == nil {
		return false
	}
	return !inA.assignsWhat(inB) && !inB.assignsWhat(inA)
}

// names are the names in a statement. A field counts under its own name, because two
// variables may hold the same value.
type names struct{ used, assigned map[string]bool }

func (n *names) assignsWhat(other *names) bool {
	for name := range n.assigned {
		if other.used[name] || other.assigned[name] {
			return true
		}
	}
	return false
}

// namesOf returns the names in a statement, nil if it does more than read and assign.
func namesOf(s ast.Stmt) *names {
	n := &names{used: map[string]bool{}, assigned: map[string]bool{}}
	switch s := s.(type) {
	case *ast.IncDecStmt:
		if !n.assigns(s.X) {
			return nil
		}
	case *ast.AssignStmt:
		for _, to := range s.Lhs {
			if !n.assigns(to) {
				return nil
			}
		}
	default:
		return nil
	}
	plain := true
	ast.Inspect(s, func(e ast.Node) bool {
		switch e := e.(type) {
		case *ast.CallExpr:
			plain = plain && isPlain(e.Fun)
		case *ast.UnaryExpr:
			plain = plain && e.Op != token.ARROW
		case *ast.FuncLit:
			plain = false
		case *ast.Ident:
			n.used[e.Name] = true
		}
		return plain
	})
	if !plain {
		return nil
	}
	return n
}

// assigns notes an assignment, to a variable or a field.
func (n *names) assigns(to ast.Expr) bool {
	switch to := to.(type) {
	case *ast.Ident:
		n.assigned[to.Name] = true
	case *ast.SelectorExpr:
		n.assigned[to.Sel.Name] = true
	default:
		return false
	}
	return true
}

// isPlain reports whether a function is built in and writes nothing.
func isPlain(f ast.Expr) bool {
	name, ok := f.(*ast.Ident)
	return ok && (name.Name == "len" || name.Name == "cap" || name.Name == "min" || name.Name == "max")
}

package architecture

import (
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	// recorders are the functions that take the reason of an event.
	recorders   = []string{"Event", "Eventf", "AnnotatedEventf", "event", "eventf", "warn", "Warn", "podEvent", "nodeEvent", "probeEvents"}
	eventReason = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	quotedName  = regexp.MustCompile("`([A-Za-z]+)`")
)

// TestEventsAreWrittenDown holds docs/PARITY.md to name the reasons of all events that are
// recorded, and no others.
func TestEventsAreWrittenDown(t *testing.T) {
	reasons := map[string]string{}
	for _, f := range moduleSources(t) {
		ours := func(dir string) bool { return strings.HasPrefix(f.path, dir) }
		if f.test() || !slices.ContainsFunc([]string{"sandbox/", "syncpod/", "modules/"}, ours) {
			continue
		}
		for _, reason := range reasonsOf(f.ast) {
			reasons[reason] = f.path
		}
	}
	_, section, _ := strings.Cut(read(t, "docs/PARITY.md"), "\nRecorded: ")
	section, _, _ = strings.Cut(section, "\n\n")
	written := map[string]bool{}
	for _, m := range quotedName.FindAllStringSubmatch(section, -1) {
		written[m[1]] = true
	}
	if len(reasons) < 30 {
		t.Errorf("%d reasons are found, want 30 or more", len(reasons))
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		if !written[reason] {
			t.Errorf("%s records events with the reason %s, which docs/PARITY.md does not name", reasons[reason], reason)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(written)) {
		if reasons[reason] == "" {
			t.Errorf("docs/PARITY.md names the reason %s, and no event has it", reason)
		}
	}
}

// reasonsOf returns the reasons of events in a file: constants whose names begin with event,
// literals for a recorder or a variable reason, and what methods Reason return.
func reasonsOf(file *ast.File) (all []string) {
	add := func(e ast.Expr) {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return
		}
		if text, err := strconv.Unquote(lit.Value); err == nil && eventReason.MatchString(text) {
			all = append(all, text)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if strings.HasPrefix(strings.ToLower(name.Name), "event") && i < len(n.Values) {
					add(n.Values[i])
				}
			}
		case *ast.AssignStmt:
			if slices.ContainsFunc(n.Lhs, func(e ast.Expr) bool { return calledName(e) == "reason" }) {
				for _, value := range n.Rhs {
					add(value)
				}
			}
		case *ast.FuncDecl:
			if n.Name.Name == "Reason" {
				ast.Inspect(n, func(n ast.Node) bool {
					if returned, ok := n.(*ast.ReturnStmt); ok {
						add(returned.Results[0])
					}
					return true
				})
			}
		case *ast.CallExpr:
			if slices.Contains(recorders, calledName(n.Fun)) {
				for _, arg := range n.Args[:min(3, len(n.Args))] {
					add(arg)
				}
			}
		}
		return true
	})
	return all
}

func calledName(f ast.Expr) string {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

package documents

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// A Block is a block of Go code in a document.
type Block struct {
	// File is the document, Line the line of the fence in it.
	File string
	Line int
	Text string
}

// Blocks returns the blocks of a document that are fenced as Go code.
func Blocks(file, text string) []Block {
	var blocks []Block
	var body []string
	inside := false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case inside && strings.HasPrefix(line, "```"):
			inside = false
			blocks[len(blocks)-1].Text = strings.Join(body, "\n")
		case inside:
			body = append(body, line)
		case line == "```go":
			inside, body = true, nil
			blocks = append(blocks, Block{File: file, Line: i + 1})
		}
	}
	return blocks
}

// names are the variables that documents use without a declaration. Each has one type in all documents.
var names = map[string]string{
	"client":       "*cri.Client",
	"ctx":          "context.Context",
	"mycontroller": "interface{ Run(context.Context, kubernetes.Interface) }",
	"newAgent":     "func(agenttest.Node) (agenttest.Agent, error)",
	"pod":          "*v1.Pod",
	"programs":     "map[string]critest.Program",
	"pv":           "*v1.PersistentVolume",
	"recorder":     "syncpod.EventRecorder",
	"root":         "string",
	"sources":      "[]source.Source",
	"status":       "*runtime.PodStatus",
	"statuses":     "syncpod.StatusSink",
	"t":            "*testing.T",
}

// Whole reports whether the block is a file with a package clause. Such blocks of one document form a package.
func (b Block) Whole() bool {
	f, err := parse(b.Text)
	return err == nil && f.Name != nil
}

// Source returns a Go file with the code of the block. The block is a file, declarations or statements; packages has the
// import path of each package name. The lines of the block keep their numbers in the document for errors.
func (b Block) Source(packages map[string]string) ([]byte, error) {
	text := fmt.Sprintf("//line %s:%d\n%s\n", b.File, b.Line+1, b.Text)
	if b.Whole() {
		return []byte(text), nil
	}
	f, err := parse("package compiled\n" + text)
	if err != nil {
		text = "func _() error {\n" + text
		if f, err = parse("package compiled\n" + text + "return nil\n}"); err == nil {
			text += uses(f) + "return nil\n}\n"
		}
	}
	if err != nil {
		return nil, err
	}
	var head bytes.Buffer
	head.WriteString("package compiled\n\n")
	variables, imports := undeclared(f, packages)
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		fmt.Fprintf(&head, "import %s %q\n", name, packages[name])
	}
	head.WriteString("\n" + variables + "\n" + text)
	return head.Bytes(), nil
}

func parse(text string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), "", text, parser.ParseComments)
}

// uses uses the variables that the statements declare: a fragment need not.
func uses(f *ast.File) string {
	var used strings.Builder
	for _, statement := range f.Decls[0].(*ast.FuncDecl).Body.List {
		if assign, ok := statement.(*ast.AssignStmt); ok && assign.Tok == token.DEFINE {
			for _, left := range assign.Lhs {
				fmt.Fprintf(&used, "_ = %s\n", left.(*ast.Ident).Name)
			}
		}
	}
	return used.String()
}

// undeclared returns declarations of the variables in names that the file uses, and the packages that both need.
func undeclared(f *ast.File, packages map[string]string) (variables string, imports map[string]bool) {
	imports = map[string]bool{}
	unresolved := map[string]bool{}
	for _, id := range f.Unresolved {
		unresolved[id.Name] = true
	}
	add := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if id, ok := s.X.(*ast.Ident); ok && packages[id.Name] != "" && id.Obj == nil {
					imports[id.Name] = true
				}
			}
			return true
		})
	}
	add(f)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !unresolved[name] {
			continue
		}
		variables += "var " + name + " " + names[name] + "\n"
		if expr, err := parser.ParseExpr(names[name]); err == nil {
			add(expr)
		}
	}
	return variables, imports
}

// Formatted returns an error if gofmt would change the block.
func (b Block) Formatted() error {
	formatted, err := format.Source([]byte(b.Text))
	if err != nil {
		return err
	}
	if string(formatted) != b.Text && string(formatted) != b.Text+"\n" {
		return errors.New("gofmt changes it")
	}
	return nil
}

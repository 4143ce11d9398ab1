package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// variable names the mutant that a process is to have, by its number.
const variable = "PODSYNC_MUTANT"

// bundle writes the files for compiling all mutants at once, and returns the overlay for the go
// command. Each function that a mutant changes has a copy, and the function first checks which
// mutant is selected. Without a selection it is unchanged.
func bundle(all []mutant, root, dir string) (overlay string, err error) {
	replace := map[string]string{}
	add := func(path, text string) error {
		file := filepath.Join(dir, strings.ReplaceAll(path, "/", "-"))
		replace[filepath.Join(root, path)] = file
		return os.WriteFile(file, []byte(text), 0o644)
	}
	byFile := map[string][]mutant{}
	for _, m := range all {
		byFile[m.file] = append(byFile[m.file], m)
	}
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		text, name, err := withMutants(byFile[file], root)
		if err != nil {
			return "", err
		}
		if err := add(file, text); err != nil {
			return "", err
		}
		if err := add(filepath.Join(filepath.Dir(file), "podsync_mutant.go"), fmt.Sprintf(number, name, variable)); err != nil {
			return "", err
		}
	}
	overlay = filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, text, 0o644)
}

// number is the contents of an additional file in each package with a mutant.
const number = `package %s

import (
	"os"
	"strconv"
)

var podsyncMutant, _ = strconv.Atoi(os.Getenv("%s"))
`

// source is a file of Go.
type source struct {
	text string
	file *ast.File
	// base is subtracted from a position to get the offset in the text.
	base int
	// funcs are the functions, by receiver and name.
	funcs map[string]*ast.FuncDecl
}

func parse(text string) (source, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	s := source{text: text, file: file, base: set.File(file.Pos()).Base(), funcs: map[string]*ast.FuncDecl{}}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			key := f.Name.Name
			if f.Recv != nil {
				key = s.slice(f.Recv.List[0].Type) + "." + key
			}
			s.funcs[key] = f
		}
	}
	return s, nil
}

func (s source) at(p token.Pos) int { return int(p) - s.base }

func (s source) slice(n ast.Node) string { return s.text[s.at(n.Pos()):s.at(n.End())] }

// code is a function without its comment.
func (s source) code(f *ast.FuncDecl) string { return s.text[s.at(f.Type.Func):s.at(f.End())] }

// withMutants returns a file with all its mutants, and the name of its package.
func withMutants(all []mutant, root string) (text, name string, err error) {
	original, err := os.ReadFile(filepath.Join(root, all[0].file))
	if err != nil {
		return "", "", err
	}
	s, err := parse(string(original))
	if err != nil {
		return "", "", err
	}
	questions := map[int]string{} // by their place in the code
	var copies strings.Builder
	for _, m := range all {
		changed, err := s.changes(m, root)
		if err != nil {
			return "", "", err
		}
		for _, key := range slices.Sorted(maps.Keys(changed)) {
			f := s.funcs[key]
			questions[s.at(f.Body.Lbrace)+1] += s.question(f, m.number)
			copies.WriteString("\n\n" + changed[key])
		}
	}
	text = s.text
	for _, at := range slices.Backward(slices.Sorted(maps.Keys(questions))) {
		text = text[:at] + questions[at] + text[at:]
	}
	return text + copies.String() + "\n", s.file.Name.Name, nil
}

// changes returns the functions that a mutant changes, with another name.
func (s source) changes(m mutant, root string) (map[string]string, error) {
	text, err := m.mutated(root)
	if err != nil {
		return nil, err
	}
	mutated, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("mutant %d (%s): %w", m.number, m.row, err)
	}
	changed := map[string]string{}
	for key, f := range mutated.funcs {
		if before := s.funcs[key]; before == nil || s.code(before) == mutated.code(f) {
			continue
		}
		end := mutated.at(f.Name.End()) - mutated.at(f.Type.Func)
		code := mutated.code(f)
		changed[key] = code[:end] + suffix(m.number) + code[end:]
	}
	if len(changed) == 0 {
		return nil, fmt.Errorf("mutant %d (%s) changes no function", m.number, m.row)
	}
	return changed, nil
}

func suffix(mutant int) string { return fmt.Sprintf("Mutant%d", mutant) }

// question has a mutant called in place of a function. All of its parameters have names.
func (s source) question(f *ast.FuncDecl, mutant int) string {
	call := f.Name.Name + suffix(mutant) + "(" + s.arguments(f.Type.Params) + ")"
	if f.Recv != nil {
		call = f.Recv.List[0].Names[0].Name + "." + call
	}
	if f.Type.Results != nil {
		return fmt.Sprintf(" if podsyncMutant == %d { return %s };", mutant, call)
	}
	return fmt.Sprintf(" if podsyncMutant == %d { %s; return };", mutant, call)
}

func (s source) arguments(params *ast.FieldList) string {
	var names []string
	for _, p := range params.List {
		for _, name := range p.Names {
			if _, variadic := p.Type.(*ast.Ellipsis); variadic {
				names = append(names, name.Name+"...")
			} else {
				names = append(names, name.Name)
			}
		}
	}
	return strings.Join(names, ", ")
}

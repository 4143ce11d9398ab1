package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is compiled in place of a file is Go, and asks for each mutant once or more.
func TestBundle(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	all, err := mutants(list)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := bundle(all, root, dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var texts strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), file, text, 0); err != nil {
			t.Error(err)
		}
		texts.Write(text)
	}
	for _, m := range all {
		if !strings.Contains(texts.String(), fmt.Sprintf("podsyncMutant == %d {", m.number)) {
			t.Errorf("the bundle lacks mutant %d", m.number)
		}
	}
}

// A function asks first which mutant it is to be, and hands over what it was given.
func TestWithMutants(t *testing.T) {
	const before = `package a

func (s *set) add(n int, more ...string) error {
	one()
	return nil
}

func clear(m map[string]int) {
	two()
}
`
	const after = `package a

func (s *set) add(n int, more ...string) error { if podsyncMutant == 1 { return s.addMutant1(n, more...) };
	one()
	return nil
}

func clear(m map[string]int) { if podsyncMutant == 2 { clearMutant2(m); return };
	two()
}


func (s *set) addMutant1(n int, more ...string) error {
	return nil
}

func clearMutant2(m map[string]int) {
}
`
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	all := []mutant{{number: 1, file: "a.go", from: "\tone()\n"}, {number: 2, file: "a.go", from: "\ttwo()\n"}}
	got, name, err := withMutants(all, root)
	if err != nil || name != "a" || got != after {
		t.Errorf("package %s, %v, want name %q and %v and no error\n%s", name, err, "a", after, got)
	}
	if _, _, err := withMutants([]mutant{{number: 3, file: "a.go", from: "package a\n", to: "package b\n"}}, root); err == nil {
		t.Error("a mutant that changes no function: no error")
	}
}

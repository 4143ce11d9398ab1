package apisurface

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// A Package is a public package: a user may import it.
type Package struct {
	ImportPath, Dir string
	GoFiles         []string
}

// A listed package is a package in the output of go list.
type listed struct {
	Package
	Name, Export string
	DepOnly      bool
	Module       *struct{ Path string }
}

// public reports whether users may import a package of the module, and whether it exports anything.
func (l *listed) public() bool {
	below := strings.TrimPrefix(l.ImportPath, l.Module.Path+"/")
	return !l.DepOnly && l.Name != "main" && below != l.ImportPath &&
		!slices.Contains(strings.Split(below, "/"), "internal") && !strings.HasPrefix(below, "examples/")
}

// Public returns the public packages of the module in a directory, and their lines.
func Public(dir string) ([]Package, []string, error) {
	var packages []Package
	var lines []string
	err := eachPublic(dir, func(l listed, pkg *types.Package) {
		packages = append(packages, l.Package)
		lines = append(lines, Lines(l.Module.Path, pkg)...)
	})
	slices.Sort(lines)
	slices.SortFunc(packages, func(a, b Package) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	return packages, lines, err
}

// Compiled returns the public packages of the module in a directory as the compiler exports them.
func Compiled(dir string) (all []*types.Package, err error) {
	err = eachPublic(dir, func(_ listed, pkg *types.Package) { all = append(all, pkg) })
	return all, err
}

func eachPublic(dir string, f func(listed, *types.Package)) error {
	all, err := list(dir)
	if err != nil {
		return err
	}
	exports := map[string]string{}
	for _, l := range all {
		exports[l.ImportPath] = l.Export
	}
	compiled := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for _, l := range all {
		if l.Module == nil || !l.public() {
			continue
		}
		pkg, err := compiled.Import(l.ImportPath)
		if err != nil {
			return err
		}
		f(l, pkg)
	}
	return nil
}

// list compiles each package of a module with its dependencies, and lists them.
func list(dir string) ([]listed, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Name,Export,DepOnly,Module", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("%w: %s", err, exit.Stderr)
	} else if err != nil {
		return nil, err
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
}

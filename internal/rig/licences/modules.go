package licences

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// systems are the operating systems for which packages are listed, because some packages have files for only one of them.
var systems = []string{"linux", "darwin", "windows"}

// A Module is a module with linked packages.
type Module struct {
	Path, Version string
	// Licences are the SPDX names of the licences of the module, and of its linked packages that have their
	// own, sorted.
	Licences []string
	// Notices are the files that the Apache License requires to be distributed with the program.
	Notices []string
	dirs    []string // from the module's down to those of linked packages
}

// Linked returns the modules that the packages of the module in a directory, tests left
// out, are linked with, by path. The error joins the problems of all licences.
func Linked(dir string) ([]*Module, error) {
	byPath := map[string]*Module{}
	for _, system := range systems {
		if err := list(dir, system, byPath); err != nil {
			return nil, err
		}
	}
	var modules []*Module
	var errs []error
	for _, m := range byPath {
		modules = append(modules, m)
		errs = append(errs, m.read())
	}
	slices.SortFunc(modules, func(a, b *Module) int { return strings.Compare(a.Path, b.Path) })
	return modules, errors.Join(errs...)
}

// list enters the modules that are linked for a system.
func list(dir, system string, modules map[string]*Module) error {
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,Module", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS="+system)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", err, exit.Stderr)
	} else if err != nil {
		return err
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Dir    string
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if p.Module == nil || p.Module.Main {
			continue
		}
		m := modules[p.Module.Path]
		if m == nil {
			m = &Module{Path: p.Module.Path, Version: p.Module.Version}
			modules[m.Path] = m
		}
		m.enter(p.Module.Dir, p.Dir)
	}
}

// enter notes the directories from the module's to a package's.
func (m *Module) enter(top, dir string) {
	for ; !slices.Contains(m.dirs, dir); dir = filepath.Dir(dir) {
		m.dirs = append(m.dirs, dir)
		if dir == top {
			return
		}
	}
}

// documents are the licences of a module's documents, which are not linked.
var documents = []string{"LICENSE.docs"}

// read reads the module's licence files.
func (m *Module) read() error {
	slices.Sort(m.dirs)
	var errs []error
	for _, dir := range m.dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			errs = append(errs, m.file(dir, e))
		}
	}
	slices.Sort(m.Licences)
	m.Licences = slices.Compact(m.Licences)
	if len(m.Licences) == 0 {
		errs = append(errs, fmt.Errorf("%s %s has no licence that may be linked", m.Path, m.Version))
	}
	return errors.Join(errs...)
}

func (m *Module) file(dir string, e fs.DirEntry) error {
	name := strings.ToUpper(e.Name())
	is := func(prefix string) bool {
		return strings.HasPrefix(name, prefix) && filepath.Ext(name) != ".GO" && e.Type().IsRegular()
	}
	switch {
	case is("NOTICE"):
		m.Notices = append(m.Notices, e.Name())
	case (is("LICENSE") || is("LICENCE") || is("COPYING") || is("UNLICENSE")) && !slices.Contains(documents, e.Name()):
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		ids, err := Identify(string(text))
		if err != nil {
			return fmt.Errorf("%s %s: %s: %w", m.Path, m.Version, filepath.Join(dir, e.Name()), err)
		}
		m.Licences = append(m.Licences, ids...)
	}
	return nil
}

// Table is the document that lists the modules.
func Table(modules []*Module) string {
	var b strings.Builder
	b.WriteString(`# Licences of linked modules

podsync is under the Apache License 2.0, see LICENSE. A program that uses all of it is linked with packages of the modules below, for Linux,
macOS or Windows. Who distributes such a program must include the texts of their licences, and the notices. They
are in the modules, which ` + "`go mod download`" + ` fetches. Go's standard library is under BSD-3-Clause. Modules of their own below examples
bring more.

A licence that is not in this list or not known to be permissive fails the tests. The file is written by

    go test ./internal/rig/licences -rewrite

| module | version | licence | notice |
| --- | --- | --- | --- |
`)
	for _, m := range modules {
		fmt.Fprintf(&b, "| %s |\n", strings.TrimRight(strings.Join([]string{m.Path, m.Version, strings.Join(m.Licences, ", "), strings.Join(m.Notices, ", ")}, " | "), " "))
	}
	return b.String()
}

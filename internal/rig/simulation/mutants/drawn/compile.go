package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// variable names the mutant that a process is to have, by its number.
const variable = "PODSYNC_MUTANT"

// chosen is a file that is added to each package: it reads the number of the mutant that the process has.
const chosen = `package %s

import (
	"os"
	"strconv"
)

var podsyncMutant, _ = strconv.Atoi(os.Getenv("%s"))
`

func (m *mutant) is() string { return fmt.Sprintf("podsyncMutant == %d", m.number) }

func (m *mutant) isNot() string { return fmt.Sprintf("podsyncMutant != %d", m.number) }

// change puts text around the part of a file from begin to end.
type change struct {
	begin, end    int
	before, after string
}

// withMutants returns the file with all its mutants. It applies the outer changes before the changes that are
// inside of them.
func (s *source) withMutants() string {
	inserted := map[int]string{}
	for _, c := range s.changes {
		inserted[c.begin] += c.before
	}
	for _, c := range slices.Backward(s.changes) {
		inserted[c.end] += c.after
	}
	var text strings.Builder
	from := 0
	for _, at := range slices.Sorted(maps.Keys(inserted)) {
		text.Write(s.text[from:at])
		text.WriteString(inserted[at])
		from = at
	}
	text.Write(s.text[from:])
	return text.String()
}

// compile writes the compiled test of a package, with all mutants of the sources, to a file.
func compile(sources []*source, pkg, dir, to string) error {
	replace := map[string]string{}
	add := func(path, text string) error {
		path, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		replace[path] = file
		return os.WriteFile(file, []byte(text), 0o600)
	}
	for _, s := range sources {
		if err := add(s.path, s.withMutants()); err != nil {
			return err
		}
	}
	if err := add(filepath.Join(pkg, "podsync_mutant.go"), fmt.Sprintf(chosen, sources[0].name, variable)); err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return err
	}
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay="+overlay, "-o", to, "./"+filepath.ToSlash(pkg))
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not compile with the mutants: %w\n%s", pkg, err, output)
	}
	return nil
}

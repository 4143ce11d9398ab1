package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

func main() {
	lives := flag.Int("lives", 300, "how many lives to live with each mutant at most")
	row := flag.String("row", "", "only mutants of this row")
	from := flag.Int("from", 1, "only mutants from this place in the list on")
	to := flag.Int("to", 0, "only mutants up to this place in the list, all if 0")
	flag.Parse()
	if err := run(*lives, func(m mutant) bool {
		return (*row == "" || m.row == *row) && m.number >= *from && (*to == 0 || m.number <= *to)
	}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run tries all wanted mutants. Its error names those that were not noticed.
func run(lives int, wanted func(mutant) bool) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	all, err := mutants(list)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := bundle(all, root, dir)
	if err != nil {
		return err
	}
	b := &binaries{root: root, dir: dir, overlay: overlay, compiled: map[string]string{}}
	var errs []error
	for _, m := range all {
		if !wanted(m) {
			continue
		}
		o, err := b.try(m, lives)
		if err != nil {
			return err
		}
		fmt.Println(line(m, o))
		if o.by == nil {
			errs = append(errs, fmt.Errorf("mutant %d (%s) is not noticed: %s", m.number, m.row, m.breaks))
		}
	}
	return errors.Join(errs...)
}

// try has a mutant noticed. What no life notices, the tests of the file's package may.
func (b *binaries) try(m mutant, lives int) (outcome, error) {
	if m.tests != "" {
		return b.runTests(m, m.tests)
	}
	o, err := b.live(m, lives)
	if err != nil || o.by != nil {
		return o, err
	}
	return b.runTests(m, "./"+path.Dir(m.file))
}

// line is the row of a table.
func line(m mutant, o outcome) string {
	took, by := fmt.Sprint(o.lives), strings.Join(o.by, "; ")
	if o.lives == 0 {
		took = "-"
	}
	if o.by == nil {
		by = "**not noticed**"
	}
	return fmt.Sprintf("| %s | `%s` | %s | %s | %s |", m.row, m.file, m.breaks, took, by)
}

// moduleRoot returns the directory of go.mod.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	return filepath.Dir(string(bytes.TrimSpace(out))), nil
}

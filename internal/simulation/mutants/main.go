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

// run tries all mutants that are wanted. Its error tells of those that nobody notices.
func run(lives int, wanted func(mutant) bool) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	all, err := mutants(list)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range all {
		if !wanted(m) {
			continue
		}
		o, err := tryAside(m, root, lives)
		switch {
		case err != nil:
			errs = append(errs, err)
		case o.by == nil:
			errs = append(errs, fmt.Errorf("mutant %d (%s) is not noticed: %s", m.number, m.row, m.breaks))
		}
		if err == nil {
			fmt.Println(line(m, o))
		}
	}
	return errors.Join(errs...)
}

// tryAside tries a mutant in a directory that goes with it. What no life notices, the tests
// of the file's package may.
func tryAside(m mutant, root string, lives int) (outcome, error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return outcome{}, err
	}
	defer os.RemoveAll(dir)
	if m.tests != "" {
		return runTests(m, root, dir, m.tests)
	}
	o, err := live(m, root, dir, lives)
	if err != nil || o.by != nil {
		return o, err
	}
	return runTests(m, root, dir, "./"+path.Dir(m.file))
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

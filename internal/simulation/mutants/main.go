package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	lives := flag.Int("lives", 300, "how many lives to live with each mutant at most")
	row := flag.String("row", "", "only mutants of this row")
	number := flag.Int("n", 0, "only the mutant of this place in the list")
	flag.Parse()
	if err := run(*lives, func(m mutant) bool {
		return (*row == "" || m.row == *row) && (*number == 0 || m.number == *number)
	}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var errMissed = errors.New("mutants: not all of them are noticed")

// run tries all mutants that are wanted.
func run(lives int, wanted func(mutant) bool) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	all, err := mutants(list)
	if err != nil {
		return err
	}
	missed := false
	for _, m := range all {
		if !wanted(m) {
			continue
		}
		o, err := tryAside(m, root, lives)
		if err != nil {
			return err
		}
		missed = missed || o.lives == 0
		fmt.Println(line(m, o, lives))
	}
	if missed {
		return errMissed
	}
	return nil
}

// tryAside tries a mutant in a directory that goes with it.
func tryAside(m mutant, root string, lives int) (outcome, error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return outcome{}, err
	}
	defer os.RemoveAll(dir)
	return try(m, root, dir, lives)
}

// line is the row of a table.
func line(m mutant, o outcome, lives int) string {
	took, rules := fmt.Sprint(o.lives), strings.Join(o.rules, "; ")
	if o.lives == 0 {
		took, rules = "-", fmt.Sprintf("not caught in %d lives", lives)
	}
	return fmt.Sprintf("| %s | `%s` | %s | %s | %s |", m.row, m.file, m.breaks, took, rules)
}

// moduleRoot returns the directory of go.mod.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	return filepath.Dir(string(bytes.TrimSpace(out))), nil
}

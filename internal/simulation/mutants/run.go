package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// outcome is what became of a mutant.
type outcome struct {
	// lives is how many it took until one broke a rule, 0 if none did.
	lives int
	// by are the rules that it broke, or the tests that failed. A mutant that nobody has
	// noticed has none.
	by []string
}

// live lives with a mutant, in a directory that it may fill.
func live(m mutant, root, dir string, lives int) (outcome, error) {
	test, err := compile(m, root, dir)
	if err != nil {
		return outcome{}, err
	}
	cmd := exec.Command(test, "-test.run=^TestLives$", "-test.timeout=0")
	cmd.Dir = filepath.Join(root, "internal", "simulation")
	cmd.Env = append(os.Environ(), "PODSYNC_SIMULATION="+strconv.Itoa(lives), "PODSYNC_SIMULATION_STOP=1", "PODSYNC_SIMULATION_DIR="+dir)
	said, err := cmd.CombinedOutput()
	stories, globErr := filepath.Glob(filepath.Join(dir, "seed-*.txt"))
	switch {
	case globErr != nil:
		return outcome{}, globErr
	case len(stories) == 0 && bytes.Contains(said, []byte("panic: ")):
		return outcome{}, fmt.Errorf("%w\n%s", err, said)
	case len(stories) == 0:
		return outcome{}, nil // at most, a rule was never put to the test
	}
	return judge(stories[0])
}

// compile makes the test of package simulation, with a mutant in it.
func compile(m mutant, root, dir string) (test string, err error) {
	overlay, err := overlay(m, root, dir)
	if err != nil {
		return "", err
	}
	test = filepath.Join(dir, "simulation.test")
	cmd := exec.Command("go", "test", "-c", "-ldflags=-s -w", "-overlay="+overlay, "-o", test, "./internal/simulation")
	cmd.Dir = root
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mutant %d (%s) does not compile: %w\n%s", m.number, m.row, err, said)
	}
	return test, nil
}

// overlay writes what has the go command see a mutant in place of its file.
func overlay(m mutant, root, dir string) (overlay string, err error) {
	text, err := m.mutated(root)
	if err != nil {
		return "", err
	}
	file, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.file): file}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, replace, 0o644)
}

// runTests runs the tests of a package with a mutant, until one fails.
func runTests(m mutant, root, dir, tests string) (outcome, error) {
	overlay, err := overlay(m, root, dir)
	if err != nil {
		return outcome{}, err
	}
	cmd := exec.Command("go", "test", "-failfast", "-vet=off", "-timeout=3m", "-ldflags=-s -w", "-overlay="+overlay, tests)
	cmd.Dir = root
	said, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return outcome{}, nil
	case bytes.Contains(said, []byte("[build failed]")):
		return outcome{}, fmt.Errorf("mutant %d (%s) does not compile: %w\n%s", m.number, m.row, err, said)
	}
	return outcome{by: failed(said, tests)}, nil
}

// failed returns the tests that have failed of a package. Without a name they did not end.
func failed(said []byte, tests string) (by []string) {
	for _, found := range failures.FindAllSubmatch(said, -1) {
		by = append(by, fmt.Sprintf("%s in `%s`", found[1], tests))
	}
	if by == nil {
		by = []string{fmt.Sprintf("the tests of `%s` do not end", tests)}
	}
	return by
}

// failures are what the go command says of tests that have failed, but for parts of tests.
var failures = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// judge reads the story of a life that broke rules: it begins with them.
func judge(story string) (outcome, error) {
	text, err := os.ReadFile(story)
	if err != nil {
		return outcome{}, err
	}
	var seed int
	if _, err := fmt.Sscanf(filepath.Base(story), "seed-%d.txt", &seed); err != nil {
		return outcome{}, fmt.Errorf("%s: %w", story, err)
	}
	o := outcome{lives: seed + 1}
	broken, _, _ := strings.Cut(string(text), "\n\n")
	for line := range strings.Lines(broken) {
		if name := ruleOf(line); name != "" && !slices.Contains(o.by, name) {
			o.by = append(o.by, name)
		}
	}
	return o, nil
}

// ruleOf returns the name of the rule that a line says to be broken, such as "C1: one live
// container of a name". Lines that go on have none.
func ruleOf(line string) string {
	rows, rest, _ := strings.Cut(line, ": ")
	name, _, found := strings.Cut(rest, ": ")
	switch {
	case rows == "it did not come to its end":
		return rows
	case !found || !codes.MatchString(rows):
		return ""
	}
	return rows + ": " + name
}

// codes are the rows that the name of a rule begins with.
var codes = regexp.MustCompile(`^[A-Z]\d+(, [A-Z]\d+)*$`)

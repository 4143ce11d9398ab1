package main

import (
	"bytes"
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
	// by are the rules that it broke, or the tests that failed; none if it was not noticed.
	by []string
}

// binaries are the tests of packages, each compiled once with all mutants in it.
type binaries struct {
	root, dir, overlay string
	compiled           map[string]string // by package
}

// test returns the compiled test of a package, such as ./podworkers.
func (b *binaries) test(pkg string) (string, error) {
	if file := b.compiled[pkg]; file != "" {
		return file, nil
	}
	file := filepath.Join(b.dir, fmt.Sprintf("%d.test", len(b.compiled)))
	cmd := exec.Command("go", "test", "-c", "-ldflags=-s -w", "-overlay="+b.overlay, "-o", file, pkg)
	cmd.Dir = b.root
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s does not compile with the mutants: %w\n%s", pkg, err, said)
	}
	b.compiled[pkg] = file
	return file, nil
}

// command runs the test of a package with a mutant.
func (b *binaries) command(m mutant, pkg string, args ...string) (*exec.Cmd, error) {
	test, err := b.test(pkg)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(test, args...)
	cmd.Dir = filepath.Join(b.root, pkg)
	cmd.Env = append(os.Environ(), variable+"="+strconv.Itoa(m.number))
	return cmd, nil
}

// live lives with a mutant, until a life breaks a rule.
func (b *binaries) live(m mutant, lives int) (outcome, error) {
	cmd, err := b.command(m, "./internal/rig/simulation", "-test.run=^TestLives$", "-test.timeout=0")
	if err != nil {
		return outcome{}, err
	}
	dir, err := os.MkdirTemp(b.dir, "stories-")
	if err != nil {
		return outcome{}, err
	}
	cmd.Env = append(cmd.Env, "PODSYNC_SIMULATION="+strconv.Itoa(lives), "PODSYNC_SIMULATION_STOP=1", "PODSYNC_SIMULATION_DIR="+dir)
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

// runTests runs the tests of a package with a mutant, until one fails.
func (b *binaries) runTests(m mutant, pkg string) (outcome, error) {
	cmd, err := b.command(m, pkg, "-test.failfast", "-test.timeout=3m")
	if err != nil {
		return outcome{}, err
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		return outcome{by: failed(said, pkg)}, nil
	}
	return outcome{}, nil
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

// failures matches the go command's lines of failed tests, without subtests.
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

// ruleOf returns the name of the broken rule in a line of output, such as "C1: one live
// container of a name". It returns "" for continuation lines.
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

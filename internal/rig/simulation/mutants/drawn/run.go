package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// slow is the duration above which a test runs in the second pass.
const slow = 200 * time.Millisecond

// tests are the compiled tests of a package.
type tests struct {
	binary, dir string
	// slow are the names of the tests that take long, as a pattern; empty if none does.
	slow string
	// fastTimeout bounds the run without slow tests, timeout all other runs.
	fastTimeout, timeout time.Duration
}

var (
	took   = regexp.MustCompile(`(?m)^--- PASS: (\S+) \((\S+)\)$`)
	failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+) `)
)

// measure compiles the tests of a package and runs them without a mutant.
func measure(sources []*source, pkg, dir string) (*tests, error) {
	t := &tests{binary: filepath.Join(dir, "package.test"), dir: pkg}
	if err := compile(sources, pkg, dir, t.binary); err != nil {
		return nil, err
	}
	begun := time.Now()
	output, err := t.run(0, 10*time.Minute, "-test.v")
	if err != nil {
		return nil, fmt.Errorf("the tests of %s fail without a mutant: %w\n%s", pkg, err, output)
	}
	t.timeout = allowed(time.Since(begun))
	var names []string
	var quick time.Duration
	for _, test := range took.FindAllSubmatch(output, -1) {
		d, err := time.ParseDuration(string(test[2]))
		if err != nil {
			return nil, err
		}
		if d > slow {
			names = append(names, string(test[1]))
		} else {
			quick += d
		}
	}
	t.fastTimeout = allowed(quick)
	if len(names) > 0 {
		t.slow = "^(" + strings.Join(names, "|") + ")$"
	}
	return t, nil
}

// allowed returns how long tests may take that have taken so long, on a machine that may be
// busier by then.
func allowed(d time.Duration) time.Duration { return 5*d + 30*time.Second }

// try runs the tests with a mutant, and returns which test noticed it, or none.
func (t *tests) try(m *mutant) (by string, err error) {
	if t.slow == "" {
		return t.notices(m, t.timeout)
	}
	if by, err = t.notices(m, t.fastTimeout, "-test.skip="+t.slow); by != "" || err != nil {
		return by, err
	}
	return t.notices(m, t.timeout, "-test.run="+t.slow)
}

func (t *tests) notices(m *mutant, within time.Duration, args ...string) (by string, err error) {
	output, err := t.run(m.number, within, append(args, "-test.failfast")...)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("taking more than %v", within.Round(time.Second)), nil
	case !errors.As(err, &exit):
		return "", err
	}
	if all := failed.FindAllSubmatch(output, -1); len(all) > 0 {
		return string(all[len(all)-1][1]), nil
	}
	line, _, _ := bytes.Cut(output, []byte("\n"))
	return string(line), nil
}

// run runs tests with the mutant of a number, 0 for none.
func (t *tests) run(number int, within time.Duration, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, t.binary, append(args, "-test.timeout=0")...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), variable+"="+strconv.Itoa(number))
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return output, err
}

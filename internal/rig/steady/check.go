package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// maxOutput bounds how much of the output of a run is kept: its end, where the failures are.
const maxOutput = 1 << 20

// testPackage is a package with tests.
type testPackage struct {
	ImportPath, Dir           string
	TestGoFiles, XTestGoFiles []string
}

// check runs the packages, and returns an error if a run has failed.
func check(ctx context.Context, s settings, out io.Writer) error {
	packages, err := list(ctx, s.patterns)
	if err != nil {
		return err
	}
	if s.draw != "" {
		shuffle(packages, s.draw)
	}
	dir, err := os.MkdirTemp("", "steady")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var end <-chan struct{} // stays closed: each package asks
	if s.budget > 0 {
		budget, cancel := context.WithTimeout(ctx, s.budget)
		defer cancel()
		end = budget.Done()
	}
	failed := 0
	for _, p := range packages {
		t, err := tally(ctx, s, p, dir, end, out)
		if err != nil {
			return fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		if t.runs == 0 {
			break
		}
		fmt.Fprintf(out, "%s: %v\n", p.ImportPath, t)
		failed += t.failures
	}
	if failed > 0 {
		return fmt.Errorf("%d runs have failed", failed)
	}
	return nil
}

// tally runs a package until it has had its runs, or the time is up.
func tally(ctx context.Context, s settings, p testPackage, dir string, end <-chan struct{}, out io.Writer) (result, error) {
	t := result{failed: map[string]int{}}
	binaries := map[bool]string{}
	for n := range s.runs {
		select {
		case <-end:
			return t, nil
		default:
		}
		v := variantOf(n, s.race)
		if binaries[v.race] == "" {
			binary, err := build(ctx, p, v.race, dir)
			if err != nil {
				return t, err
			}
			binaries[v.race] = binary
		}
		output, err := run(ctx, s, p, binaries[v.race], v)
		if ctx.Err() != nil {
			return t, ctx.Err()
		}
		t.runs++
		if err == nil {
			continue
		}
		if t.failures == 0 {
			fmt.Fprintf(out, "%s with GOMAXPROCS=%d, race detector %v: %v\n%s\n", p.ImportPath, v.procs, v.race, err, output)
		}
		t.failures++
		for _, name := range failedTests(string(output)) {
			t.failed[name]++
		}
	}
	return t, nil
}

func list(ctx context.Context, patterns []string) ([]testPackage, error) {
	out, err := command(ctx, "", nil, "go", append([]string{"list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var packages []testPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p testPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			packages = append(packages, p)
		}
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("%v have no tests", patterns)
	}
	return packages, nil
}

// build returns the file of the package's test binary.
func build(ctx context.Context, p testPackage, race bool, dir string) (string, error) {
	binary := filepath.Join(dir, "plain.test")
	if race {
		binary = filepath.Join(dir, "race.test")
	}
	_, err := command(ctx, p.Dir, nil, "go", "test", "-c", "-race="+strconv.FormatBool(race), "-o", binary, p.ImportPath)
	return binary, err
}

// run runs the test binary in the directory of its package, as go test does, beside busy processes.
func run(ctx context.Context, s settings, p testPackage, binary string, v variant) ([]byte, error) {
	stop, err := busy(s.busy)
	if err != nil {
		return nil, err
	}
	defer stop()
	args := []string{"-test.shuffle=on", "-test.timeout=" + s.timeout.String()}
	if s.pattern != "" {
		args = append(args, "-test.run="+s.pattern)
	}
	out, err := command(ctx, p.Dir, []string{"GOMAXPROCS=" + strconv.Itoa(v.procs)}, binary, args...)
	return out, err
}

// command returns the end of a program's output, and an error with the same if it fails.
func command(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	out := &tail{}
	c.Stdout = out
	c.WaitDelay = 10 * time.Second // a program that a test has left may hold the pipe
	stderr := &tail{}
	c.Stderr = stderr
	if err := c.Run(); err != nil {
		return append(out.kept, stderr.kept...), fmt.Errorf("%s: %w: %s", filepath.Base(name), err, lastLine(stderr.kept))
	}
	return out.kept, nil
}

// tail keeps the last maxOutput bytes.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if len(t.kept) > 2*maxOutput {
		t.kept = append([]byte(nil), t.kept[len(t.kept)-maxOutput:]...)
	}
	return len(p), nil
}

func lastLine(text []byte) []byte {
	text = bytes.TrimSpace(text)
	return text[bytes.LastIndexByte(text, '\n')+1:]
}

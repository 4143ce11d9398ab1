package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// files are those that mutants are drawn from where the command line names none.
var files = []string{"actions/*.go", "podworkers/*.go", "syncpod/internal/memory/*.go", "syncpod/kill*.go", "runtime/pleg/*.go"}

func main() {
	seed := flag.Uint64("seed", 1, "what the draw begins with")
	count := flag.Int("count", 500, "how many mutants are tried")
	flag.Parse()
	patterns := files
	if flag.NArg() > 0 {
		patterns = flag.Args()
	}
	survived, err := run(os.Stdout, patterns, *seed, *count)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "drawn:", err)
		os.Exit(2)
	case survived > 0:
		os.Exit(1)
	}
}

func run(out io.Writer, patterns []string, seed uint64, count int) (survived int, err error) {
	sources, err := readAll(patterns)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "podsync-mutants")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	tried, all := 0, draw(sources, seed)
	for _, m := range all {
		if tried == count {
			break
		}
		noticed, compiles, err := try(dir, m)
		switch {
		case err != nil:
			return survived, err
		case !compiles:
			continue
		case noticed:
			fmt.Fprintf(out, "noticed   %v\n", m)
		default:
			survived++
			fmt.Fprintf(out, "SURVIVED  %v\n", m)
		}
		tried++
	}
	fmt.Fprintf(out, "%d of %d mutants noticed, drawn from %d\n", tried-survived, tried, len(all))
	return survived, nil
}

// readAll reads the files that fit, but for tests and documentation.
func readAll(patterns []string) (sources []*source, err error) {
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			s, err := read(path)
			if err != nil {
				return nil, err
			}
			sources = append(sources, s)
		}
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("no file fits %q", patterns)
	}
	return sources, nil
}

// longest is how long the tests of a package may take. A mutant that makes them longer is
// noticed.
const longest = 5 * time.Minute

// try runs the tests of the package of a mutant.
func try(dir string, m mutant) (noticed, compiles bool, err error) {
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, m.apply(), 0o600); err != nil {
		return false, false, err
	}
	original, err := filepath.Abs(m.source.path)
	if err != nil {
		return false, false, err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return false, false, err
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return false, false, err
	}
	cmd := exec.Command("go", "test", "-overlay", overlay, "-vet=off", "-short", "-failfast", "-count=1", "-timeout", longest.String(), "./"+filepath.Dir(m.source.path))
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	failed := cmd.Run()
	if bytes.Contains(output.Bytes(), []byte("[build failed]")) || bytes.Contains(output.Bytes(), []byte("[setup failed]")) {
		return false, false, nil
	}
	return failed != nil, true, nil
}

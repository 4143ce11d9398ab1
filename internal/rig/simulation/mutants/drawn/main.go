package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// defaultPatterns apply if no FILES are given.
var defaultPatterns = []string{"actions/*.go", "podworkers/*.go", "syncpod/memory/*.go", "syncpod/lifecycle/*.go", "runtime/pleg/*.go"}

func main() {
	seed := flag.Uint64("seed", 1, "what the draw begins with")
	count := flag.Int("count", 500, "how many mutants are tried")
	flag.Parse()
	patterns := defaultPatterns
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
	sources, err := readAll("", patterns)
	if err != nil {
		return 0, err
	}
	known, err := equivalents(list)
	if err != nil {
		return 0, err
	}
	if err := find(known, sources); err != nil {
		return 0, err
	}
	all := places(sources, known)
	drawn := draw(all, seed)
	drawn = drawn[:min(count, len(drawn))]
	var noticed int
	for _, pkg := range packages(sources) {
		n, tried, err := runPackage(out, pkg, sources, drawn)
		if err != nil {
			return 0, err
		}
		if tried > 0 {
			fmt.Fprintf(out, "%s: %d of %d mutants noticed\n", pkg, n, tried)
		}
		noticed += n
	}
	for _, e := range known {
		if e.mutant != nil {
			fmt.Fprintf(out, "equivalent  %v\n", e)
		}
	}
	fmt.Fprintf(out, "%d of %d mutants noticed, %.1f %%, drawn from %d\n", noticed, len(drawn), 100*float64(noticed)/float64(len(drawn)), len(all))
	return len(drawn) - noticed, nil
}

// places returns all mutants of the sources, except the equivalent ones.
func places(sources []*source, known []*equivalent) (all []*mutant) {
	not := map[*mutant]bool{}
	for _, e := range known {
		not[e.mutant] = true
	}
	for _, s := range sources {
		for _, m := range s.places {
			if !not[m] {
				all = append(all, m)
			}
		}
	}
	return all
}

func packages(sources []*source) (pkgs []string) {
	seen := map[string]bool{}
	for _, s := range sources {
		if pkg := filepath.Dir(s.path); !seen[pkg] {
			seen[pkg] = true
			pkgs = append(pkgs, pkg)
		}
	}
	return pkgs
}

// runPackage tries the mutants of a package.
func runPackage(out io.Writer, pkg string, all []*source, drawn []*mutant) (noticed, tried int, err error) {
	var sources []*source
	for _, s := range all {
		if filepath.Dir(s.path) == pkg {
			sources = append(sources, s)
		}
	}
	dir, err := os.MkdirTemp("", "podsync-mutants")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	var t *tests
	for _, m := range drawn {
		if filepath.Dir(m.path) != pkg {
			continue
		}
		if t == nil {
			if t, err = measure(sources, pkg, dir); err != nil {
				return 0, 0, err
			}
		}
		by, err := t.try(m)
		if err != nil {
			return 0, 0, err
		}
		tried++
		if by == "" {
			fmt.Fprintf(out, "SURVIVED  %v\n", m)
			continue
		}
		noticed++
		fmt.Fprintf(out, "noticed   %v, by %s\n", m, by)
	}
	return noticed, tried, nil
}

// readAll reads the files below root that match a pattern, without tests.
func readAll(root string, patterns []string) (sources []*source, err error) {
	next := 1
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			s, err := read(root, path, next)
			if err != nil {
				return nil, err
			}
			next += len(s.places)
			sources = append(sources, s)
		}
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("no file fits %q", patterns)
	}
	return sources, nil
}

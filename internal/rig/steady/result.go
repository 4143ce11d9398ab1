package main

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// variant is how one run differs from others.
type variant struct {
	procs int // GOMAXPROCS
	race  bool
}

// variantOf makes runs take turns, so that few runs have met each combination.
func variantOf(run int, race bool) variant {
	procs := []int{1, 2, 8}
	if !race {
		return variant{procs: procs[run%len(procs)]}
	}
	return variant{procs: procs[run/2%len(procs)], race: run%2 == 1}
}

// result counts the runs of a package, and those in which a test has failed.
type result struct {
	runs, failures int
	failed         map[string]int
}

func (r result) String() string {
	text := fmt.Sprintf("%d runs, %d failures", r.runs, r.failures)
	for i, name := range slices.Sorted(maps.Keys(r.failed)) {
		text += fmt.Sprintf("%s %s %d", []string{":", ","}[min(i, 1)], name, r.failed[name])
	}
	return text
}

// failedTests returns the names of the tests that failed in the output of one run. Of a test that panics or hangs, the Go
// runtime prints the name in other ways; without a name it is "the process".
func failedTests(output string) []string {
	names := map[string]bool{}
	running := false
	for line := range strings.Lines(output) {
		text := strings.TrimSpace(line)
		name, isFailure := strings.CutPrefix(text, "--- FAIL: ")
		switch {
		case isFailure && strings.HasPrefix(line, "--- "): // subtests are indented
			names[firstWord(name)] = true
		case text == "running tests:":
			running = true
		case running && strings.HasPrefix(text, "Test"):
			names[firstWord(text)] = true
		default:
			running = false
		}
	}
	if len(names) == 0 {
		return []string{"the process"}
	}
	return slices.Sorted(maps.Keys(names))
}

func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}

// shuffle puts packages into an order that depends only on the text and the packages.
func shuffle(packages []testPackage, text string) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	r := rand.New(rand.NewPCG(h.Sum64(), 0))
	r.Shuffle(len(packages), func(i, j int) { packages[i], packages[j] = packages[j], packages[i] })
}

// Command conformance compares podsync's decisions with recorded decisions of a
// kubelet.
//
//	go run ./internal/rig/conformance KIND FILE...
//
// KIND is the kind of the recorded cases. FILE is .jsonl or .jsonl.gz, with one case in each
// line. The command prints up to ten differences and, as its last line,
//
//	KIND: N vectors, A agree, P deviate on purpose, D differ
//
// and exits with 1 if D is not 0, and with 2 after an error. Each deliberate
// deviation has a rule in the code of its kind, and a line in
// docs/PARITY.md.
package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/podsync/podsync/internal/rig/conformance/record"
)

func main() {
	t, err := run(os.Stdout, os.Args[1:])
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	case t.differ > 0:
		os.Exit(1)
	}
}

// check decides one recorded case, given as a line of JSON.
type check func(line []byte) (outcome, error)

// kinds are the kinds of recorded cases, by the name given on the command line.
func kinds() map[string]check {
	return map[string]check{
		"actions":    checkActions,
		"cgroup":     checkCgroup,
		"config":     checkConfig,
		"cpu":        checkCPU,
		"env":        checkEnv,
		"numamemory": checkMemory,
		"rank":       checkRank,
		"resources":  checkResources,
		"status":     checkStatus,
		"topology":   checkTopology,
		"workers":    checkWorkers,
	}
}

func run(out io.Writer, args []string) (tally, error) {
	known := kinds()
	if len(args) < 2 {
		return tally{}, errors.New("usage: conformance KIND FILE..., with KIND one of " + names(known))
	}
	judge, ok := known[args[0]]
	if !ok {
		return tally{}, fmt.Errorf("kind %q is not one of %s", args[0], names(known))
	}
	t := tally{kind: args[0], out: out}
	for _, path := range args[1:] {
		if err := record.EachLine(path, func(line []byte) error { return t.add(judge(line)) }); err != nil {
			return t, err
		}
	}
	t.print()
	return t, nil
}

func names(known map[string]check) string {
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

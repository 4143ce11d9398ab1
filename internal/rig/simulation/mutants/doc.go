// Mutants shows that a life, or a test, notices when a mechanism of podsync breaks.
//
//	go run ./internal/rig/simulation/mutants [-lives 300] [-row K1] [-from 3] [-to 5]
//
// mutants.txt lists changes to single files, each of which breaks what one row of
// docs/FAILURES.md relies on. Nothing of them is in the product: all are compiled at once
// beside what they change (go test -overlay), and a process has the one that its environment
// names. It lives the lives of package simulation until one of them breaks a rule. If none
// does, the tests of the package are run. For some, which no life can show, the list names
// the package of the tests that notice them. For each mutant a row of a Markdown table is
// printed: the row of the catalogue, the file, what is broken, how many lives it took, and
// which rules or tests noticed. The command fails if a mutant is not noticed.
//
// The files:
//
//   - main.go: the command.
//   - list.go: the list, read and applied.
//   - bundle.go: all of them, in one overlay.
//   - run.go: one mutant, lived with or tested.
package main

// Mutants shows that a life, or a test, notices when a mechanism of podsync breaks.
//
//	go run ./internal/simulation/mutants [-lives 300] [-row K1] [-from 3] [-to 5]
//
// mutants.txt lists changes to single files, each of which breaks what one row of
// docs/FAILURES.md relies on. Nothing of them is in the product: each is compiled into
// a test of its own (go test -overlay), which lives the lives of package simulation until
// one of them breaks a rule. If none does, the tests of the package are run. For some, which
// no life can show, the list names the package of the tests that notice them. For each mutant
// a row of a Markdown table is printed: the row of the catalogue, the file, what is broken,
// how many lives it took, and which rules or tests noticed. The command fails if a mutant is
// not noticed.
//
// The files:
//
//   - main.go: the command.
//   - list.go: the list, read and applied.
//   - run.go: one mutant, compiled and lived with.
package main

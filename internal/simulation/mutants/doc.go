// Mutants shows that the simulation notices when a mechanism of podsync breaks.
//
//	go run ./internal/simulation/mutants [-lives 300] [-row K1] [-n 3]
//
// mutants.txt lists changes to single files, each of which breaks what one row of
// docs/FAILURES.md relies on. Nothing of them is in the product: each is compiled into
// a test of its own (go test -overlay), which lives the lives of package simulation until
// one of them breaks a rule. For each it prints a row of a Markdown table: the
// mechanism, how many lives it took, and which rules noticed. It fails if a mutant is
// not noticed.
//
// The files:
//
//   - main.go: the command.
//   - list.go: the list, read and applied.
//   - run.go: one mutant, compiled and lived with.
package main

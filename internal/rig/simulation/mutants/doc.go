// Command mutants shows that a life, or a test, notices when a mechanism of podsync breaks.
//
//	go run ./internal/rig/simulation/mutants [-lives 300] [-row K1] [-from 3] [-to 5]
//
// mutants.txt lists changes to single files, each of which breaks a mechanism behind one row of
// docs/FAILURES.md. The product contains none of them: all are compiled at once next to the
// original code (go test -overlay), and the environment of a process selects one. The process runs
// lives of package simulation until one breaks a rule. If none does, the tests of the
// package are run. For mutants that no life can show, the list names the package whose tests notice
// them. For each mutant a row of a Markdown table is printed: the row of the catalogue, the file,
// the broken mechanism, the number of lives, and the rules or tests that noticed. The command fails
// if a mutant is not noticed.
//
// The files:
//
//   - main.go: the command.
//   - list.go: reads and applies the list.
//   - bundle.go: one overlay with all mutants.
//   - run.go: runs the lives or tests of one mutant.
package main

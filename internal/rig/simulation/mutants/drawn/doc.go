// Command drawn breaks single places of the code, drawn at random, and reports whether the
// tests of their own package notice.
//
//	go run ./internal/rig/simulation/mutants/drawn [-seed N] [-count N] [FILES...]
//
// FILES are patterns of Go files below the module, by default those of the decisions, of the
// memory of pods and of the stops. A mutant forces a condition to true or to false, deletes a
// statement, or swaps two neighbouring statements, but for two assignments that have nothing in
// common. The tests of each package are compiled once,
// with all its mutants, and a process has the one that its environment names. The files are
// handed to the go command as an overlay: the tree stays as it is.
//
// The tests of a package run once without a mutant. Those that take long then run only where
// no other test has noticed a mutant. A mutant that makes the tests take far longer is noticed.
//
// equivalent.txt lists, with the reasons, the mutants that no test can notice, because the code
// does the same with them. They are not drawn.
//
// It prints a line for each mutant, how many were noticed in each package, and the equivalent
// ones. It exits with 1 if a mutant was not noticed, and with 2 if it could not run.
//
// The files:
//
//   - main.go: the command.
//   - draw.go: finds the places that can be broken, and draws.
//   - independent.go: which statements may as well be swapped.
//   - equivalent.go: the list of the mutants that are equivalent.
//   - compile.go: a file with all its mutants, and the tests of a package with them.
//   - run.go: one mutant, tested.
package main

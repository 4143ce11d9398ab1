// Command drawn breaks single places of the code, drawn at random, and reports whether the
// tests of their own package notice.
//
//	go run ./internal/rig/simulation/mutants/drawn [-seed N] [-count N] [FILES...]
//
// FILES are patterns of Go files below the module. The default is the code of the decisions, of the
// memory of pods and of the stops. A mutant forces a condition to true or to false, deletes a
// statement, or swaps two neighbouring statements, except two independent assignments. The tests of each
// package are compiled once, with all mutants, and the environment of a process selects one. The files are
// passed to the go command as an overlay, so the tree does not change.
//
// The tests of a package first run once without a mutant. After that, slow tests run only if
// no other test has noticed the mutant. A mutant that makes the tests much slower counts as noticed.
//
// equivalent.txt lists, with the reasons, the mutants that no test can notice, because they do not change the
// behaviour. They are not drawn.
//
// The command prints a line for each mutant, the number of noticed mutants of each package, and the equivalent
// mutants. It exits with 1 if a mutant was not noticed, and with 2 after an error.
//
// The files:
//
//   - main.go: the command.
//   - draw.go: finds the places that can be broken, and draws.
//   - independent.go: which neighbouring statements are independent.
//   - equivalent.go: the list of the equivalent mutants.
//   - compile.go: a file with all its mutants, and the compiled tests of a package.
//   - run.go: tests one mutant.
package main

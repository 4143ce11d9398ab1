// Command drawn breaks single places of the code, drawn at random, and reports whether the
// tests of their own package notice.
//
//	go run ./internal/simulation/mutants/drawn [-seed N] [-count N] [FILES...]
//
// FILES are patterns of Go files below the module, by default those of the decisions, of the
// memory of pods and of the stops. A mutant forces a condition to true or to false, deletes a
// statement, or swaps two neighbouring statements. A mutant that does not compile is drawn
// anew. The changed file is handed to the go command as an overlay: the tree stays as it is.
//
// It prints a line for each mutant, and at last how many were noticed. It exits with 1 if one
// was not, and with 2 if it could not run. A mutant that no test can notice is explained in
// docs/PROOF.md.
//
// draw.go finds the places and makes the changes, main.go runs the tests.
package main

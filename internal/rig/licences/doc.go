// Package licences lists the licences of the modules linked into programs that use this
// module, and checks that they are permissive, because the distributor of such a program
// has to comply with them.
//
//	go test ./internal/rig/licences -rewrite
//
// writes docs/results/licences.txt from the licence files in the modules. The test
// fails if the list does not match go.mod, and if a licence is not
// known to be permissive.
package licences

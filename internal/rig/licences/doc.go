// Package licences lists the licences of the modules linked into programs that use this
// module, and checks that they are permissive, because the distributor of such a program
// has to comply with them.
//
//	go test ./internal/rig/licences -rewrite
//
// writes docs/LICENSES.md, from the licence files that come with the modules. The test
// fails when go.mod has changed and the list has not, and for a licence that is not
// known to be permissive.
package licences

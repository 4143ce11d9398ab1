// Package licences lists the licences of what is linked into programs that use the
// module, and holds them to be permissive: whoever ships such a program has to name
// them, and must not be surprised.
//
//	go test ./internal/rig/licences -rewrite
//
// writes docs/LICENSES.md, from the licence files that come with the modules. The test
// fails when go.mod has changed and the list has not, and for a licence that is not
// known to be permissive.
package licences

// Package apisurface checks the compatibility of the API: it records the exported names,
// and fails if a name of a release is removed without announcement.
//
//	go test ./internal/rig/apisurface -rewrite
//
// writes docs/api/next.txt, which has a line for each exported name of each public
// package: functions, types, their methods and fields, constants and variables, with
// everything that a user's program depends on. Names of parameters and comments are left out.
// At a release the file is copied to docs/api/<version>.txt and never changed again.
//
// The tests fail if next.txt differs from the exported names, and if a line of the last
// release was removed or changed and CHANGELOG.md does not name it under "Breaking".
// They also require a comment on each exported name, a running example in each public
// package, and valid names and links in documents.
//
// TestNoArgumentPanics calls each exported function with nil, zero and hostile arguments.
package apisurface

// The files:
//
//	lines.go     the lines of a package
//	packages.go  the public packages, as the compiler exports them
//	leaks.go     exported names that show types which programs cannot name
//	changes.go   names that were removed since a release, and the change log
//	comments.go  exported names without a comment

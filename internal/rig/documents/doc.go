// Package documents checks the Markdown files of the repository: each relative link leads to a file and a heading that
// exist, each document is reachable from README, and the Go code compiles.
//
// Code of other modules compiles in those modules, which need more dependencies: PODSYNC_DOCUMENTS=all includes it.
package documents

// The files:
//
//	links.go    links and the anchors of headings
//	code.go     makes a package of each block of Go code
//	compile.go  compiles the packages, which exist only in an overlay of the go command

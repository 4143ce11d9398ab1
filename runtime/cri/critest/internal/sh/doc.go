// Package sh runs the commands of containers that have no kernel under them.
//
// It understands a small part of the POSIX shell, chosen so that a script
// means here what it means under busybox ash in a real container: the same
// exit codes, the same answer to signals, the same time. Time is package time,
// so in a testing/synctest bubble a sleep costs nothing.
//
// A script outside this part is a syntax error as it would be in a shell: one
// line on standard error that says what is not understood, and exit code 2.
//
// # Where each rule lives
//
//	lex.go, parse.go   from text to commands
//	shell.go           commands are run; redirect.go where their output goes
//	builtins.go        commands of the shell itself
//	applets.go         commands that are programs in a real container
//	process.go         a process, and how it ends; signal.go by which signals
package sh

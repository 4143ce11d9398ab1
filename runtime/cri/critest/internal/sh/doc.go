// Package sh runs the commands of containers without a kernel.
//
// It supports a small part of the POSIX shell, chosen so that a script behaves as with busybox ash in a
// real container: the same exit codes, the same reaction to signals, the same timing. It uses package
// time, so a sleep costs no time in a testing/synctest bubble.
//
// Any other syntax is a syntax error, as in a shell: one line on standard error that names the
// unsupported part, and exit code 2.
package sh

// Where each rule lives:
//
//	lex.go, parse.go   from text to commands
//	shell.go           runs commands; redirect.go redirects their output
//	builtins.go        builtins of the shell
//	applets.go         commands that are programs in a real container; test.go test and expr
//	process.go         a process and its exit; signal.go signals

// Package sh runs the commands of containers without a kernel.
//
// Package mvdan.cc/sh/v3/syntax parses scripts, and mvdan.cc/sh/v3/expand expands words. This package runs the commands,
// because mvdan.cc/sh/v3/interp cannot: its pipes, here documents and redirected inputs are the operating system's
// pipes, on which virtual time stops; it has no trap of a signal; and it reads the user, the home directory and the
// process on the machine.
//
// A script behaves as with busybox ash in a real container: the same exit codes, the same reaction to signals, the same
// timing. A construct that this package does not run is a syntax error, as in a shell: one line on standard error that
// names the line and the construct, exit code 2, and no command of the script runs. The package uses package time, so a
// sleep costs no time in a testing/synctest bubble. It uses nothing of the machine.
package sh

// Where each rule lives:
//
//	parse.go           which constructs a script may have
//	shell.go           runs statements; call.go simple commands, pipe.go pipelines and jobs
//	redirect.go        opens files; expand.go variables and substitutions
//	builtins.go        commands of the shell
//	applets.go         programs of a real container; filetools.go and texttools.go those for files and texts
//	test.go, expr.go   conditions and expressions
//	process.go         a process and its exit; signal.go signals

//go:build unix

package credentialprovider

import (
	"os/exec"
	"syscall"
)

// ownGroup has a program run in a process group of its own, and killGroup kills that group: a plugin may be a script, and killing
// its shell alone leaves the programs that it has started.
func ownGroup(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(command *exec.Cmd) error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }

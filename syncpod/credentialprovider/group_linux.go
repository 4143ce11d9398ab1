package credentialprovider

import (
	"os/exec"
	"syscall"
	"unsafe"
)

// ownGroup makes a program run in a process group of its own, and killGroup kills that group: a plugin may be a script, and
// killing only its shell would leave the programs that it has started.
func ownGroup(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup must not be called after the program was reaped.
func killGroup(command *exec.Cmd) error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }

// A reap reaps a program that has ended, and returns how it has ended.
type reap func() error

// awaitExit returns when the program has ended. It does not reap the program: until it is reaped, its process ID, which is
// the ID of its group, stays reserved.
func awaitExit(command *exec.Cmd) reap {
	const byPID = 1
	var info [128]byte // siginfo_t; nothing reads it
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(command.Process.Pid), uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return command.Wait
		}
	}
}

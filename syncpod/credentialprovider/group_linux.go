package credentialprovider

import (
	"os/exec"
	"syscall"
	"unsafe"
)

// ownGroup has a program run in a process group of its own, and killGroup kills that group: a plugin may be a script, and killing
// its shell alone leaves the programs that it has started.
func ownGroup(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup must not be called after the program was reaped.
func killGroup(command *exec.Cmd) error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }

// A reap reaps a program that has ended, and returns how it has ended.
type reap func() error

// awaitExit returns when the program has ended. It does not reap the program: its process ID, which is the ID of its group, stays
// taken until then.
func awaitExit(command *exec.Cmd) reap {
	const byPID = 1
	var info [128]byte // siginfo_t, which nothing reads
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(command.Process.Pid), uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return command.Wait
		}
	}
}

//go:build !linux

package credentialprovider

import "os/exec"

func ownGroup(*exec.Cmd) {}

// killGroup kills the program alone, because a group can be killed safely only before its first process is reaped.
func killGroup(command *exec.Cmd) error { return command.Process.Kill() }

// A reap returns how a program has ended.
type reap func() error

// awaitExit returns when the program has ended.
func awaitExit(command *exec.Cmd) reap {
	state, err := command.Process.Wait()
	return func() error {
		if err == nil && !state.Success() {
			return &exec.ExitError{ProcessState: state}
		}
		return err
	}
}

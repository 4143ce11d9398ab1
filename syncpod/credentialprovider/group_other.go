//go:build !unix

package credentialprovider

import "os/exec"

func ownGroup(*exec.Cmd) {}

// killGroup kills the program alone: there are no process groups.
func killGroup(command *exec.Cmd) error { return command.Process.Kill() }

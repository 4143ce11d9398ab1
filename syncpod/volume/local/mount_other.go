//go:build !linux

package local

import (
	"errors"
	"os"
)

// errNotLinux is returned for operations that only Linux supports.
var errNotLinux = errors.New("mounting needs Linux; see Config.Unprivileged")

func mountMemory(directory, memory) error { return errNotLinux }

func isolate(string) error { return errNotLinux }

func pin(*os.Root, string, string) error { return errNotLinux }

package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// A user without permission for root's socket gets an error with advice.
func TestDialWithoutPermission(t *testing.T) {
	dir, err := os.MkdirTemp("", "dial-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	lis, err := net.Listen("unix", filepath.Join(dir, "cri.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() { _, err = dial(t.Context(), "unix://"+dir+"/cri.sock", t.Logf) })
	if exitCode(err) != exitNoPermission || !hasAll(err.Error(), []string{"permission denied", "Run the agent as root"}) {
		t.Errorf("exit code %d, %v", exitCode(err), err)
	}
}

// An ordinary user who names no folders gets an error with advice.
func TestFolderWithoutPermission(t *testing.T) {
	dir, err := os.MkdirTemp("", "folder-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() { _, err = parse([]string{"-root", dir + "/root"}, io.Discard) })
	if exitCode(err) != exitNoPermission || !hasAll(err.Error(), []string{"-root: mkdir", "permission denied", "Run the agent as root, or set folders"}) {
		t.Errorf("exit code %d, %v", exitCode(err), err)
	}
}

// If -root cannot be written to, the error names -root and not a file below it.
func TestRootWithoutPermission(t *testing.T) {
	dir, err := os.MkdirTemp("", "folder-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() { _, err = parse([]string{"-root", dir}, io.Discard) })
	if exitCode(err) != exitNoPermission || !hasAll(err.Error(), []string{"-root: open " + dir, "permission denied"}) {
		t.Errorf("exit code %d, %v", exitCode(err), err)
	}
}

// asNobody calls do with the file permissions of the user nobody. If the user is not root, it calls do with the user's
// own.
func asNobody(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() == 0 {
		const nobody = 65534
		runtime.LockOSThread() // only this thread has nobody's file permissions, and it ends with the test
		if err := syscall.Setfsuid(nobody); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Setfsuid(0) }()
	}
	do()
}

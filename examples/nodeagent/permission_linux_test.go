package main

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// Nobody may use a socket that is root's.
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
	if os.Geteuid() == 0 {
		const nobody = 65534
		runtime.LockOSThread() // the thread is nobody for files, and ends with the test
		if err := syscall.Setfsuid(nobody); err != nil {
			t.Fatal(err)
		}
	}
	_, err = dial(t.Context(), "unix://"+dir+"/cri.sock")
	if os.Geteuid() == 0 {
		_ = syscall.Setfsuid(0)
	}
	if exitCode(err) != exitNoPermission || !hasAll(err.Error(), []string{"permission denied", "Run the agent as root"}) {
		t.Errorf("exit code %d, %v", exitCode(err), err)
	}
}

package server

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/loop"
)

// countedAgent counts how often the server asks it for its pods.
type countedAgent struct {
	idle
	asked atomic.Int32
}

func (a *countedAgent) Pods() []loop.Pod {
	a.asked.Add(1)
	return nil
}

// dialAs connects to a Unix socket as a user. The kernel keeps credentials for each thread, and records at a connection
// those of the thread that connects.
func dialAs(t *testing.T, uid int, socket string) (net.Conn, error) {
	t.Helper()
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	become := func(uid int) {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			t.Fatalf("setresuid %d: %v", uid, errno)
		}
	}
	become(uid)
	defer become(0)
	return net.Dial("unix", socket)
}

// askAs requests the pods as a user, and returns the answer, which is empty if the server closes the connection.
func askAs(t *testing.T, uid int, socket string) string {
	t.Helper()
	conn, err := dialAs(t, uid, socket)
	if err != nil {
		t.Fatalf("user %d cannot connect: %v", uid, err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, "GET /pods HTTP/1.0\r\n\r\n") // it fails if the server has closed the connection
	text, _ := io.ReadAll(conn)
	return string(text)
}

// ServeUnix identifies a caller by the user of its process only. It refuses all users that are not listed, also if another
// user is listed, and if the mode of the socket was changed.
func TestServeUnixRefusesOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as other users")
	}
	const named, foreign = 64123, 64124
	for name, uids := range map[string][]int{"a user is named": {named}, "no user is named": nil} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must.Do(t, os.Chmod(filepath.Dir(dir), 0o755))
			agent := &countedAgent{}
			s := must.Get(New(Config{Agent: agent, Client: new(cri.Client)}))(t)
			socket := filepath.Join(dir, "s")
			must.Run(t, func(ctx context.Context) error { return s.ServeUnix(ctx, socket, uids...) })
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
				if got, err := over(socket, "/pods"); err == nil && strings.HasPrefix(got, "200 ") {
					break
				} else if time.Now().After(deadline) {
					t.Fatalf("%q, %v", got, err)
				}
			}
			if len(uids) == 0 {
				if conn, err := dialAs(t, foreign, socket); err == nil {
					conn.Close()
					t.Error("another user can open the socket")
				}
				must.Do(t, os.Chmod(socket, 0o666))
			}
			before := agent.asked.Load()
			if got := askAs(t, foreign, socket); got != "" {
				t.Errorf("another user is answered %q", got)
			}
			if got := askAs(t, named, socket); len(uids) == 0 && got != "" || len(uids) > 0 && !strings.Contains(got, " 200 ") {
				t.Errorf("user %d is answered %q, and those named are %v", named, got, uids)
			}
			if asked := agent.asked.Load() - before; int(asked) != len(uids) {
				t.Errorf("the agent was asked %d times, want %d", asked, len(uids))
			}
		})
	}
}

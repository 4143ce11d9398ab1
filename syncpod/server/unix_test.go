package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/loop"
)

// idle is an agent without pods.
type idle struct{}

func (idle) Pods() []loop.Pod      { return nil }
func (idle) Health() loop.Health   { return loop.Health{} }
func (idle) Cache() *runtime.Cache { return &runtime.Cache{} }

func (idle) Explain(types.UID) string { return "" }

func idleServer(t *testing.T) *Server {
	t.Helper()
	return must.Get(New(Config{Agent: idle{}, Client: new(cri.Client)}))(t)
}

// over requests a path over a socket.
func over(socket, path string) (string, error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	resp, err := client.Get("http://node" + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(text)), err
}

func TestServeUnix(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("who is at the other end of a socket is known on Linux alone")
	}
	socket := filepath.Join(t.TempDir(), "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	must.Do(t, err)
	stale.SetUnlinkOnClose(false)
	stale.Close() // as an agent that was killed leaves it
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	s := idleServer(t)
	go func() { ended <- s.ServeUnix(ctx, socket) }()
	var got string
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if got, err = over(socket, "/pods"); err == nil {
			break
		}
	}
	if err != nil || !strings.HasPrefix(got, "200 ") {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v, want 0o600 and no error", info.Mode(), err)
	}
	cancel()
	must.Do(t, <-ended)
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
}

// A header above the limit is rejected before the agent has read all of it.
func TestServeUnixBoundsHeaders(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("who is at the other end of a socket is known on Linux alone")
	}
	socket := filepath.Join(t.TempDir(), "s")
	must.Run(t, func(ctx context.Context) error { return idleServer(t).ServeUnix(ctx, socket) })
	for size, want := range map[int]string{maxHeader / 2: "200 ", 2 * maxHeader: "431 "} {
		var got string
		var err error
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			if got, err = over(socket, "/pods?x="+strings.Repeat("x", size)); err == nil {
				break
			}
		}
		if err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("a header of %d bytes is answered %.100q, %v, want %s", size, got, err, want)
		}
	}
}

func TestServeUnixReplacesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	must.Do(t, os.WriteFile(path, []byte("precious"), 0o600))
	if err := idleServer(t).ServeUnix(t.Context(), path); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("%v, want an error and %q in it", err, "no socket")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
		t.Errorf("%q, %v, want %q and no error", text, err, "precious")
	}
}

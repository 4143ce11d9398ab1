package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// ServeUnix serves a Unix socket until ctx ends, and then returns nil. Processes whose user is
// root, this process's user, or one of uids (numeric user IDs) have full access; all other
// connections are closed. It does not use the Authenticator. The peer is known only on Linux: on
// other systems every connection is closed.
//
// The socket has mode 0600, or 0666 if uids are given. An existing socket at the path is replaced,
// any other file is not. When ServeUnix returns, all connections are closed and the socket is
// removed.
func (s *Server) ServeUnix(ctx context.Context, path string, uids ...int) error {
	lis, err := listenUnix(path, len(uids) > 0)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	server := &http.Server{
		ReadHeaderTimeout: headerTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return context.WithValue(ctx, trusted{}, true) },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			running.Add(1)
			defer running.Done()
			s.ServeHTTP(w, r)
		}),
	}
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(stopped)
		shutdown(server)
	})
	err = server.Serve(checkedListener{lis, append([]int{0, os.Geteuid()}, uids...)})
	told := ctx.Err() != nil
	cancel()
	<-stopped
	running.Wait() // streams are not the server's any more
	if told {
		return nil
	}
	return err
}

const (
	// headerTimeout bounds the time until a request's header has arrived.
	headerTimeout = 30 * time.Second
	// maxHeader bounds a request's header, in bytes. An exec's command is part of the URL, and the kernel
	// limits each argument to 128 KiB.
	maxHeader = 256 << 10
	// lastWords is the time that responses have to end when the server shuts down.
	lastWords = time.Second
)

// shutdown ends a server and its connections.
func shutdown(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	_ = server.Shutdown(ctx) // remaining connections are closed
	_ = server.Close()       // the listener is closed already
}

// listenUnix listens on a socket that other users can open only if some of them may.
func listenUnix(path string, others bool) (*net.UnixListener, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("server: %s is there and no socket", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
	}
	lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	mode := os.FileMode(0o600)
	if others {
		mode = 0o666
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("server: %w", err), lis.Close())
	}
	return lis, nil
}

// A checkedListener accepts connections of some users.
type checkedListener struct {
	*net.UnixListener
	uids []int
}

// Accept returns an allowed user's next connection.
func (l checkedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := peerUID(conn); err == nil && slices.Contains(l.uids, uid) {
			return conn, nil
		}
		conn.Close()
	}
}

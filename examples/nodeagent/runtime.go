package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// memory selects a runtime in memory, in place of an endpoint.
const memory = "memory"

// patience is the maximum wait for a runtime that is not available yet.
const patience = 10 * time.Second

// The agent's exit codes.
const (
	exitOther        = 1
	exitUsage        = 2
	exitNoPermission = 3
	exitNoRuntime    = 4
	exitWrongRuntime = 5
)

// A failure is an error with advice for the user.
type failure struct {
	code   int
	advice string
	err    error
}

func (f *failure) Error() string { return strings.TrimSpace(fmt.Sprintf("%v\n%s", f.err, f.advice)) }

func (f *failure) Unwrap() error { return f.err }

// An unprefixedError is an error of the library without the name of its package or field, which is no word of a flag.
type unprefixedError struct {
	error
	text string
}

func (e unprefixedError) Error() string { return e.text }

func (e unprefixedError) Unwrap() error { return e.error }

// unprefixed removes the first of the prefixes that err has.
func unprefixed(err error, prefixes ...string) error {
	for _, p := range prefixes {
		if text, ok := strings.CutPrefix(err.Error(), p); ok {
			return unprefixedError{err, text}
		}
	}
	return err
}

func exitCode(err error) int {
	if f := (*failure)(nil); errors.As(err, &f) {
		return f.code
	}
	return exitOther
}

// A connection is a connection to a runtime.
type connection struct {
	*cri.Client
	streams http.RoundTripper // for the runtime's streaming server, nil for the default
	// dialPod connects to pods in memory, nil for the network.
	dialPod func(ctx context.Context, network, address string) (net.Conn, error)
	end     func()
}

// connect connects to the runtime. It calls say if it must wait.
func connect(ctx context.Context, o options, say func(string, ...any), options ...grpc.DialOption) (*connection, error) {
	if o.runtime != memory {
		client, err := dial(ctx, o.runtime, say, options...)
		if err != nil {
			return nil, err
		}
		return &connection{Client: client, end: func() { _ = client.Close() }}, nil
	}
	socket := filepath.Join(o.root, "memory.sock")
	if err := clearAway(ctx, socket, o.root); err != nil {
		return nil, err
	}
	rt, err := critest.New(critest.Config{Dir: o.root, LogsRoot: o.podLogs, JournalLimit: 1000})
	if err != nil {
		return nil, err
	}
	endpoint, err := rt.Listen(socket)
	if err != nil {
		return nil, errors.Join(err, rt.Close())
	}
	client, err := dial(ctx, endpoint, say, options...)
	if err != nil {
		return nil, errors.Join(err, rt.Close())
	}
	streams := &http.Transport{DialContext: rt.DialStream, DisableKeepAlives: true}
	return &connection{client, streams, rt.DialPod, func() { _, _ = client.Close(), rt.Close() }}, nil
}

// clearAway removes a killed runtime's socket in memory, if no process listens on it. A process that is being killed may
// still answer for a moment.
func clearAway(ctx context.Context, socket, root string) error {
	err := reachable(ctx, socket)
	for end := time.Now().Add(time.Second); err == nil && time.Now().Before(end) && ctx.Err() == nil; err = reachable(ctx, socket) {
		time.Sleep(50 * time.Millisecond)
	}
	if err == nil {
		err = fmt.Errorf("-root %s: another agent runs there, its runtime answers at %s", root, socket)
		return &failure{exitUsage, "Stop that agent, or give this one another -root.", err}
	}
	if info, there := os.Lstat(socket); errors.Is(err, syscall.ECONNREFUSED) && there == nil && info.Mode()&fs.ModeSocket != 0 {
		return os.Remove(socket)
	}
	return nil
}

func dial(ctx context.Context, endpoint string, say func(string, ...any), options ...grpc.DialOption) (*cri.Client, error) {
	there := reachable(ctx, endpoint)
	if errors.Is(there, fs.ErrPermission) {
		return nil, &failure{exitNoPermission, "Run the agent as root, or as a user who may use the runtime's socket.", there}
	}
	if there != nil {
		say("No runtime answers at %s yet: %v. Waiting for %v.", endpoint, there, patience)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := cri.Dial(ctx, cri.Config{Endpoint: endpoint, Options: options})
	switch {
	case err == nil:
		return client, nil
	case errors.Is(err, cri.ErrUnimplemented):
		return nil, &failure{exitWrongRuntime, "containerd speaks it from 1.6 on, unless its configuration disables the cri plugin, and CRI-O from 1.23 on.", err}
	case errors.Is(err, cri.ErrUnavailable), errors.Is(err, cri.ErrDeadline):
		err = fmt.Errorf("no runtime answers at %s within %v: %w", endpoint, patience, cmp.Or(there, err))
		return nil, &failure{exitNoRuntime, "Is the runtime started, and is this its endpoint? containerd's is usually unix:///run/containerd/containerd.sock, CRI-O's unix:///run/crio/crio.sock.", err}
	case !errors.As(err, new(*cri.Error)): // no connection was attempted
		return nil, &failure{exitUsage, seeHelp, err}
	}
	return nil, err
}

// reachable distinguishes a socket without permission from a missing one, which may still appear.
// It ignores endpoints that are not sockets.
func reachable(ctx context.Context, endpoint string) error {
	path := strings.TrimPrefix(endpoint, "unix://")
	if !strings.HasPrefix(path, "/") {
		return nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	return conn.Close()
}

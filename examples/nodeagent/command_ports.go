package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/runtime/websocket"
)

// forwardPorts is nodeagent port-forward: it connects each connection to a local port to a pod port, until ctx ends.
func forwardPorts(ctx context.Context, l *invocation) error {
	if len(l.names) < 2 {
		return wrongUsage{errors.New("PORT is missing")}
	}
	path, err := l.path(ctx, "portForward")
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, ports := range l.names[1:] {
		local, remote, err := portsOf(ports)
		if err != nil {
			return wrongUsage{err}
		}
		lis, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", local))
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { lis.Close() })
		fmt.Fprintf(l.out, "Forwarding from %s -> %s\n", lis.Addr(), remote)
		running.Go(func() { l.accept(ctx, &running, lis, path+"?port="+remote) })
	}
	<-ctx.Done()
	return nil
}

// portsOf parses PORT or LOCAL:PORT. LOCAL 0 means any free port.
func portsOf(text string) (local, remote string, err error) {
	local, remote, ok := strings.Cut(text, ":")
	if !ok {
		remote = local
	}
	for _, port := range []string{local, remote} {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return "", "", fmt.Errorf("%q is neither PORT nor LOCAL:PORT", text)
		}
	}
	return local, remote, nil
}

func (l *invocation) accept(ctx context.Context, running *sync.WaitGroup, lis net.Listener, path string) {
	for {
		conn, err := lis.Accept()
		if err != nil {
			return
		}
		running.Go(func() {
			defer conn.Close()
			if err := l.forward(ctx, conn, path); err != nil {
				fmt.Fprintln(l.errs, "nodeagent:", foreign.Line(err.Error()))
			}
		})
	}
}

// forward copies a connection in both directions. Each channel begins with the number of the port.
func (l *invocation) forward(ctx context.Context, conn net.Conn, path string) error {
	ws, _, err := l.open(ctx, path, "v4.channel.k8s.io")
	if err != nil {
		return err
	}
	defer ws.Close()
	defer context.AfterFunc(ctx, func() { ws.Close() })()
	go func() {
		_, _ = io.Copy(channel{ws}, conn) // until either side closes
	}()
	begun := [2]bool{}
	for {
		message, err := ws.Read()
		switch {
		case err != nil:
			return nil // the agent closed the connection
		case len(message) == 0 || message[0] > 1:
			continue
		case !begun[message[0]]:
			begun[message[0]] = true
		case message[0] == 1 && len(message) > 1:
			return refusal(string(message[1:]))
		case message[0] == 0:
			if _, err := conn.Write(message[1:]); err != nil {
				return nil // the same
			}
		}
	}
}

// A channel is the data channel.
type channel struct{ ws *websocket.Conn }

func (c channel) Write(b []byte) (int, error) {
	if err := c.ws.Write([]byte{0}, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

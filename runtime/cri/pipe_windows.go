package cri

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// errPipeBusy is ERROR_PIPE_BUSY: all pipe instances are in use.
const errPipeBusy = syscall.Errno(231)

// dialPipe opens a named pipe for overlapped reads and writes. If the pipe is busy, dialPipe retries
// until the context ends.
func dialPipe(ctx context.Context, path string) (net.Conn, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|syscall.FILE_FLAG_OVERLAPPED, 0)
		if err == nil {
			return &pipeConn{File: f, addr: pipeAddr(path)}, nil
		}
		if !errors.Is(err, errPipeBusy) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// pipeConn is an open named pipe as a net.Conn.
type pipeConn struct {
	*os.File
	addr pipeAddr
}

func (c *pipeConn) LocalAddr() net.Addr  { return c.addr }
func (c *pipeConn) RemoteAddr() net.Addr { return c.addr }

type pipeAddr string

func (pipeAddr) Network() string  { return "npipe" }
func (a pipeAddr) String() string { return string(a) }

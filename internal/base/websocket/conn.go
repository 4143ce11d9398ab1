package websocket

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// closeTime bounds how long the end of a connection is told.
const closeTime = time.Second

// A Conn is a WebSocket. One goroutine may read while others write and close.
type Conn struct {
	conn   net.Conn
	r      *bufio.Reader
	client bool

	// turn has a value while nobody writes. It is no mutex, so that a test in virtual time
	// passes over the wait for it.
	turn   chan struct{}
	buf    []byte
	closed bool
}

func newConn(conn net.Conn, r *bufio.Reader, client bool) *Conn {
	c := &Conn{conn: conn, r: r, client: client, turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

// Read returns the next message, and io.EOF when the other end has said that there are
// no more.
func (c *Conn) Read() ([]byte, error) {
	var message []byte
	for begun := false; ; {
		f, err := readFrame(c.r, maxMessage-len(message), !c.client)
		switch {
		case err != nil:
			return nil, err
		case f.controls():
			if err := c.control(f); err != nil {
				return nil, err
			}
			continue
		case begun != (f.op == opContinue), f.op > opBinary:
			return nil, fmt.Errorf("websocket: a frame of kind %d comes out of order", f.op)
		}
		begun = true
		message = append(message, f.data...)
		if f.final {
			return message, nil
		}
	}
}

// control answers what is said about the connection.
func (c *Conn) control(f frame) error {
	switch f.op {
	case opPing:
		if err := c.write(opPong, f.data); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil // after CloseWrite there is no answer
	case opPong:
		return nil
	case opClose:
		return io.EOF
	}
	return fmt.Errorf("websocket: a frame of kind %d is not known", f.op)
}

// Write sends a message. It keeps nothing of it.
func (c *Conn) Write(message ...[]byte) error { return c.write(opBinary, message...) }

func (c *Conn) write(op byte, parts ...[]byte) error {
	<-c.turn
	defer func() { c.turn <- struct{}{} }()
	if c.closed {
		return net.ErrClosed
	}
	return c.send(op, parts...)
}

// send sends a message of who has the turn.
func (c *Conn) send(op byte, parts ...[]byte) error {
	data := parts[0]
	for _, p := range parts[1:] {
		data = append(data[:len(data):len(data)], p...)
	}
	if len(data) > maxMessage {
		return fmt.Errorf("websocket: a message of %d bytes is longer than %d", len(data), maxMessage)
	}
	c.buf = appendFrame(c.buf[:0], op, data, c.client)
	_, err := c.conn.Write(c.buf)
	return err
}

// CloseWrite says that there are no more messages. What the other end still sends can be
// read, and is not answered.
func (c *Conn) CloseWrite() error {
	<-c.turn
	defer func() { c.turn <- struct{}{} }()
	if c.closed {
		return nil
	}
	c.closed = true
	return c.send(opClose, []byte{0x03, 0xe8}) // 1000: all is well
}

// Close says that there are no more messages, if the other end listens, and closes the
// connection. A Write that waits ends.
func (c *Conn) Close() error {
	_ = c.conn.SetWriteDeadline(time.Now().Add(closeTime)) // one that cannot is closed all the same
	err := errors.Join(c.CloseWrite(), c.conn.Close())
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

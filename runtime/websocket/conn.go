package websocket

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// closeTime limits the time to send the close frame.
const closeTime = time.Second

// A Conn is a WebSocket. One goroutine may read while others write and close.
type Conn struct {
	conn   net.Conn
	r      *bufio.Reader
	client bool

	// in is the frame being read, size the length of its message so far. more is set between a
	// message's chunks and frames.
	in   frame
	size int
	more bool
	// piece is ReadPiece's last result.
	piece []byte

	// turn has a value while no goroutine writes. It is not a mutex, so that tests in virtual time
	// advance over the wait.
	turn   chan struct{}
	buf    []byte
	closed bool
}

func newConn(conn net.Conn, r *bufio.Reader, client bool) *Conn {
	c := &Conn{conn: conn, r: r, client: client, turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

// Read returns the next message, and io.EOF when the peer has closed the WebSocket.
func (c *Conn) Read() ([]byte, error) {
	var message []byte
	for {
		piece, _, last, err := c.ReadPiece()
		if err != nil {
			return nil, err
		}
		if message = append(message, piece...); last {
			return message, nil
		}
	}
}

// ReadPiece returns the next part of a message, of at most 32 KiB; a shorter message is returned
// whole. The slice is valid until the next call. first and last report whether the piece begins and
// ends the message. Memory is allocated only for bytes that have arrived, or will arrive next. The
// errors are those of Read.
func (c *Conn) ReadPiece() (piece []byte, first, last bool, err error) {
	first, c.piece = !c.more, c.piece[:0]
	for len(c.piece) < maxPiece {
		if c.in.left == 0 {
			if err := c.nextFrame(); err != nil {
				return nil, false, false, err
			}
		}
		if c.piece, err = c.in.read(c.r, c.piece, maxPiece-len(c.piece)); err != nil {
			return nil, false, false, err
		}
		if c.in.left == 0 && c.in.final {
			c.more = false
			return c.piece, first, true, nil
		}
	}
	return c.piece, first, false, nil
}

// nextFrame reads the head of a message's next frame. It answers frames that control the connection.
func (c *Conn) nextFrame() error {
	for {
		if !c.more {
			c.size = 0
		}
		f, err := readFrame(c.r, maxMessage-c.size, !c.client)
		switch {
		case err != nil:
			return err
		case f.controls():
			if err := c.control(f); err != nil {
				return err
			}
			continue
		case c.more != (f.op == opContinue), f.op > opBinary:
			return fmt.Errorf("websocket: a frame of kind %d comes out of order", f.op)
		}
		c.in, c.size, c.more = f, c.size+f.left, true
		return nil
	}
}

// control answers a control frame.
func (c *Conn) control(f frame) error {
	data, err := f.read(c.r, nil, f.left)
	if err != nil {
		return err
	}
	switch f.op {
	case opPing:
		if err := c.write(opPong, data); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil // after CloseWrite nothing is sent
	case opPong:
		return nil
	case opClose:
		return io.EOF
	}
	return fmt.Errorf("websocket: a frame of kind %d is not known", f.op)
}

// Write sends a message. It does not retain the message.
func (c *Conn) Write(message ...[]byte) error { return c.write(opBinary, message...) }

func (c *Conn) write(op byte, parts ...[]byte) error {
	<-c.turn
	defer func() { c.turn <- struct{}{} }()
	if c.closed {
		return net.ErrClosed
	}
	return c.send(op, parts...)
}

// send sends a message. The caller holds the turn.
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

// CloseWrite sends a close frame. Messages that the peer still sends can be read.
func (c *Conn) CloseWrite() error {
	<-c.turn
	defer func() { c.turn <- struct{}{} }()
	if c.closed {
		return nil
	}
	c.closed = true
	return c.send(opClose, []byte{0x03, 0xe8}) // 1000 means a normal end
}

// Close sends a close frame, if the peer reads, and closes the connection. A pending Write returns.
func (c *Conn) Close() error {
	_ = c.conn.SetWriteDeadline(time.Now().Add(closeTime)) // if this fails, the connection is closed nevertheless
	err := errors.Join(c.CloseWrite(), c.conn.Close())
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

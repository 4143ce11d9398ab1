package spdy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// Protocol is the protocol to which an HTTP connection is upgraded.
const Protocol = "SPDY/3.1"

// A Conn is one end of a connection. One goroutine may read while others write and close.
type Conn struct {
	conn   io.WriteCloser
	server bool

	// Only the goroutine that reads uses these fields.
	r       *bufio.Reader
	data    frame // the current data frame, with its remaining size
	left    int
	piece   []byte
	headers headerReader

	// turn has a value while no goroutine writes. It is not a mutex, so that tests in virtual time
	// advance over the wait.
	turn  chan struct{}
	buf   []byte
	next  uint32 // the next stream to open
	begun bool   // the header compression

	pings atomic.Uint32
	// answering has a value for each ping that is being answered.
	answering chan struct{}
}

// maxAnswers limits the pings that are answered at a time.
const maxAnswers = 4

// Client returns the end of a connection that opens streams.
func Client(conn io.ReadWriteCloser) *Conn { return newConn(conn, false) }

// Server returns the end of a connection that accepts streams.
func Server(conn io.ReadWriteCloser) *Conn { return newConn(conn, true) }

func newConn(conn io.ReadWriteCloser, server bool) *Conn {
	c := &Conn{conn: conn, r: bufio.NewReader(conn), server: server, piece: make([]byte, maxPiece), turn: make(chan struct{}, 1), next: 1, answering: make(chan struct{}, maxAnswers)}
	c.turn <- struct{}{}
	return c
}

// The kinds of messages.
const (
	// Opened: the peer has opened a stream, with its header.
	Opened = iota
	// Accepted: the peer has accepted a stream that this end opened.
	Accepted
	// Data: the peer sent data on a stream.
	Data
	// Closed: the peer will send no more on a stream.
	Closed
	// Reset: a stream has ended in both directions.
	Reset
)

// A Message is a message from the peer about a stream.
type Message struct {
	Kind   int
	Stream uint32
	Header http.Header
	Data   []byte // until the next Read
}

// Read returns the next message, with data in chunks of bounded size. It returns io.EOF when the peer has announced its
// messages' end, or has closed the connection between two frames.
func (c *Conn) Read() (Message, error) {
	for {
		if c.left > 0 {
			return c.readPiece()
		}
		if c.data.final {
			c.data.final = false
			return Message{Kind: Closed, Stream: c.data.stream}, nil
		}
		f, err := readHead(c.r)
		if err != nil {
			return Message{}, err
		}
		if !f.control {
			c.data, c.left = f, f.size
			continue
		}
		m, known, err := c.control(f)
		if known || err != nil {
			return m, err
		}
	}
}

// readPiece reads some of a frame's data.
func (c *Conn) readPiece() (Message, error) {
	n, err := c.r.Read(c.piece[:min(c.left, len(c.piece))])
	c.left -= n
	if n == 0 {
		return Message{}, cut(err)
	}
	return Message{Kind: Data, Stream: c.data.stream, Data: c.piece[:n]}, nil
}

// control reads a control frame. It answers frames about the connection, and ignores frames that
// are not needed.
func (c *Conn) control(f frame) (m Message, known bool, err error) {
	body, err := readBody(c.r, &f)
	if err != nil {
		return m, false, err
	}
	switch f.kind {
	case synStream:
		return c.opened(f, body)
	case synReply:
		c.data = f // the peer may close the stream with it
		return Message{Kind: Accepted, Stream: f.stream}, true, nil
	case rstStream:
		return Message{Kind: Reset, Stream: f.stream}, true, nil
	case ping:
		c.answer(f)
	case goAway:
		return m, false, io.EOF
	}
	return m, false, nil
}

// opened reads a stream's header.
func (c *Conn) opened(f frame, body []byte) (m Message, known bool, err error) {
	if !c.server || len(body) < 6 {
		return m, false, fmt.Errorf("spdy: stream %d cannot be opened like this", f.stream)
	}
	header, err := c.headers.read(body[6:]) // skip the associated stream, the priority and the slot
	if err != nil {
		return m, false, fmt.Errorf("spdy: the header of stream %d: %w", f.stream, err)
	}
	c.data = f // the peer may open and close the stream with it
	return Message{Kind: Opened, Stream: f.stream, Header: header}, true, nil
}

// answer returns a ping of the peer, which has an odd number if the peer is the client. It writes
// in a goroutine, so that a blocked write does not block reading. Pings that arrive while one is
// being answered are dropped.
func (c *Conn) answer(f frame) {
	if (f.stream%2 == 1) != c.server {
		return // it is the answer to a ping of this end
	}
	select {
	case c.answering <- struct{}{}:
		go func() {
			defer func() { <-c.answering }()
			_ = c.write(func(b []byte) []byte { return appendControl(b, ping, f.stream, nil) }) // Read reports a broken connection
		}()
	default:
	}
}

// Open opens a stream with a header, whose names must be lower case. The peer accepts or resets the
// stream.
func (c *Conn) Open(header map[string]string) (stream uint32, err error) {
	if c.server {
		return 0, errors.New("spdy: a server opens no streams")
	}
	err = c.write(func(b []byte) []byte {
		stream = c.next
		c.next += 2
		return appendControl(b, synStream, stream, c.block(make([]byte, 6), header))
	})
	return stream, err
}

// Accept accepts a stream that the peer has opened.
func (c *Conn) Accept(stream uint32) error {
	return c.write(func(b []byte) []byte { return appendControl(b, synReply, stream, c.block(nil, nil)) })
}

// block appends a header.
func (c *Conn) block(b []byte, header map[string]string) []byte {
	b = appendHeader(b, header, !c.begun)
	c.begun = true
	return b
}

// Write sends data on a stream. It does not retain the data.
func (c *Conn) Write(stream uint32, data []byte) error {
	for len(data) > maxData {
		if err := c.send(stream, data[:maxData], 0); err != nil {
			return err
		}
		data = data[maxData:]
	}
	return c.send(stream, data, 0)
}

// CloseWrite ends a stream in the peer's direction.
func (c *Conn) CloseWrite(stream uint32) error { return c.send(stream, nil, flagFin) }

func (c *Conn) send(stream uint32, data []byte, flags byte) error {
	return c.write(func(b []byte) []byte { return append(appendHead(b, stream, flags, len(data)), data...) })
}

// Reset ends a stream in both directions.
func (c *Conn) Reset(stream uint32) error {
	return c.write(func(b []byte) []byte { return appendControl(b, rstStream, stream, cancelled) })
}

// Ping sends a ping, which resets the peer's idle timeout. The response is ignored.
func (c *Conn) Ping() error {
	id := 2*c.pings.Add(1) - 1
	if c.server {
		id++
	}
	return c.write(func(b []byte) []byte { return appendControl(b, ping, id, nil) })
}

// write writes the bytes that add appends, in one call.
func (c *Conn) write(add func([]byte) []byte) error {
	<-c.turn
	defer func() { c.turn <- struct{}{} }()
	c.buf = add(c.buf[:0])
	_, err := c.conn.Write(c.buf)
	return err
}

// Close closes the connection. Pending reads and writes return.
func (c *Conn) Close() error { return c.conn.Close() }

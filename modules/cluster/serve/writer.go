package serve

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// writeSize is how many bytes of a response the peer must read within answerTimeout.
const writeSize = 32 << 10

// A writer limits how long a peer may take to read a response: a stranger must read all of it
// within the limit, an admitted peer some of it within each such period. Streams and logs set
// deadlines of their own.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	// until is the deadline of the response to a stranger, zero for an admitted peer.
	until time.Time
	// own is set while the handler has a deadline of its own, and after it took the connection.
	own bool
}

func newWriter(w http.ResponseWriter) *writer {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // clear the previous response's deadline; a connection without deadlines fails at the write
	return &writer{ResponseWriter: w, control: control}
}

// Unwrap returns the writer below.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write writes in chunks, and renews the deadline after each.
func (w *writer) Write(b []byte) (written int, err error) {
	for first := true; err == nil && (first || len(b) > 0); first = false {
		part := b[:min(len(b), writeSize)]
		b = b[len(part):]
		w.arm()
		n, failure := w.ResponseWriter.Write(part)
		w.disarm()
		written, err = written+n, failure
	}
	return written, err
}

// FlushError flushes the response.
func (w *writer) FlushError() error {
	w.arm()
	defer w.disarm()
	return w.control.Flush()
}

// Flush flushes the response.
func (w *writer) Flush() { _ = w.FlushError() }

// Hijack returns the connection, without a deadline.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := w.control.Hijack()
	w.own = w.own || err == nil
	return conn, buffered, err
}

// SetWriteDeadline sets the deadline of the handler, in place of this one. A stranger keeps its own.
func (w *writer) SetWriteDeadline(t time.Time) error {
	if !w.until.IsZero() {
		return nil
	}
	w.own = !t.IsZero()
	return w.control.SetWriteDeadline(t)
}

func (w *writer) arm() {
	switch {
	case w.own:
	case !w.until.IsZero():
		_ = w.control.SetWriteDeadline(w.until)
	default:
		_ = w.control.SetWriteDeadline(time.Now().Add(answerTimeout))
	}
}

// disarm clears the deadline of a write: it would otherwise end the request between two writes.
func (w *writer) disarm() {
	if !w.own && w.until.IsZero() {
		_ = w.control.SetWriteDeadline(time.Time{})
	}
}

// admit ends the bound of a stranger.
func (w *writer) admit() {
	w.until = time.Time{}
	w.disarm()
}

// end sets a deadline for the part of the response that the server sends after the handler.
func (w *writer) end() { w.arm() }

// bound returns the body of a request with a read deadline.
func (w *writer) bound(r *http.Request) io.ReadCloser {
	if r.ContentLength == 0 {
		return r.Body
	}
	_ = w.control.SetReadDeadline(time.Now().Add(bodyTimeout))
	return &boundBody{r.Body, w.control}
}

// A boundBody clears the deadline at the end of the body, because the server continues to read to
// detect that the peer disconnects.
type boundBody struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read reads.
func (b *boundBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

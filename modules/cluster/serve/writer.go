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

// A writer limits how long a peer may take to read a response: a stranger must read all of it within the limit, an
// admitted peer some of it within each such period. Streams and logs set their own deadlines.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	// until is the response's deadline to a stranger, zero for an admitted peer.
	until time.Time
	// ownDeadline is set while the handler has set a deadline itself, and after it has hijacked the connection.
	ownDeadline bool
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
		w.setDeadline()
		n, failure := w.ResponseWriter.Write(part)
		w.clearDeadline()
		written, err = written+n, failure
	}
	return written, err
}

// FlushError flushes the response.
func (w *writer) FlushError() error {
	w.setDeadline()
	defer w.clearDeadline()
	return w.control.Flush()
}

// Flush flushes the response.
func (w *writer) Flush() { _ = w.FlushError() }

// Hijack returns the connection, without a deadline.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := w.control.Hijack()
	w.ownDeadline = w.ownDeadline || err == nil
	return conn, buffered, err
}

// SetWriteDeadline sets the handler's deadline, in place of this one. A stranger keeps its own.
func (w *writer) SetWriteDeadline(t time.Time) error {
	if !w.until.IsZero() {
		return nil
	}
	w.ownDeadline = !t.IsZero()
	return w.control.SetWriteDeadline(t)
}

func (w *writer) setDeadline() {
	switch {
	case w.ownDeadline:
	case !w.until.IsZero():
		_ = w.control.SetWriteDeadline(w.until)
	default:
		_ = w.control.SetWriteDeadline(time.Now().Add(answerTimeout))
	}
}

// clearDeadline clears a write's deadline, which would otherwise end the request between two writes.
func (w *writer) clearDeadline() {
	if !w.ownDeadline && w.until.IsZero() {
		_ = w.control.SetWriteDeadline(time.Time{})
	}
}

// admit ends a stranger's limit.
func (w *writer) admit() {
	w.until = time.Time{}
	w.clearDeadline()
}

// end sets a deadline for the part of the response that the server sends after the handler.
func (w *writer) end() { w.setDeadline() }

// bound returns the body of a request with a read deadline.
func (w *writer) bound(r *http.Request) io.ReadCloser {
	if r.ContentLength == 0 {
		return r.Body
	}
	_ = w.control.SetReadDeadline(time.Now().Add(bodyTimeout))
	return &boundBody{r.Body, w.control}
}

// A boundBody clears the read deadline at the body's end, because the server continues to read to detect that the peer
// disconnects.
type boundBody struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read implements io.Reader.
func (b *boundBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

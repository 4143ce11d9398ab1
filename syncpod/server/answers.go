package server

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// maxAnswers and maxAnswersOfUser limit the size of the responses that callers have not read yet, in bytes, of all
	// users and of one. A single larger response is rejected, too.
	maxAnswers, maxAnswersOfUser = 128 << 20, 64 << 20
	// answerPart is the chunks' size in which a response is buffered, in bytes. A chunk that was
	// sent is freed immediately.
	answerPart = 32 << 10
	// maxEncoding limits the concurrent encodings.
	maxEncoding = 2
	// answerTime is how long a caller may stop reading a buffered response.
	answerTime = 15 * time.Second
)

// errHeld is the error of a response for which there is no room.
var errHeld = errors.New("too much is held of answers that were not read yet")

// answers counts the bytes that answers hold, of all users and of each.
type answers struct {
	mu     sync.Mutex
	all    int
	ofUser map[string]int
}

// reserve counts n more bytes from a user, and reports whether there is room for
// them.
func (a *answers) reserve(user string, n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > maxAnswersOfUser-a.ofUser[user] || n > maxAnswers-a.all {
		return false
	}
	a.all += n
	a.ofUser[user] += n
	return true
}

func (a *answers) release(user string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all -= n
	if a.ofUser[user] -= n; a.ofUser[user] == 0 {
		delete(a.ofUser, user)
	}
}

// An answer is an http.ResponseWriter that buffers a handler's response. The response is sent after the handler has
// returned, so that the handler's resources are not held while the caller reads.
type answer struct {
	all      *answers
	user     string
	header   http.Header
	code     int
	parts    [][]byte
	reserved int // bytes, without those of parts
	full     bool
}

// Header returns the header.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader notes the status.
func (a *answer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
}

// Write buffers b, or fails if there is no room for it.
func (a *answer) Write(b []byte) (written int, err error) {
	a.WriteHeader(http.StatusOK)
	for len(b) > 0 {
		last := len(a.parts) - 1
		if last < 0 || len(a.parts[last]) == cap(a.parts[last]) {
			if need := answerPart - a.reserved; need > 0 && !a.reserve(need) {
				return written, errHeld
			}
			a.parts = append(a.parts, make([]byte, 0, answerPart))
			a.reserved -= answerPart
			continue
		}
		n := min(len(b), cap(a.parts[last])-len(a.parts[last]))
		a.parts[last] = append(a.parts[last], b[:n]...)
		b, written = b[n:], written+n
	}
	return written, nil
}

// reserve reserves room for n bytes before they are written.
func (a *answer) reserve(n int) bool {
	if !a.all.reserve(a.user, n) {
		a.full = true
		return false
	}
	a.reserved += n
	return true
}

// unreserve releases the reserved room that is not used.
func (a *answer) unreserve() {
	a.all.release(a.user, a.reserved)
	a.reserved = 0
}

// drop frees the buffer.
func (a *answer) drop() {
	a.unreserve()
	for len(a.parts) > 0 {
		a.dropPart()
	}
}

// dropPart frees the first chunk.
func (a *answer) dropPart() {
	a.all.release(a.user, cap(a.parts[0]))
	a.parts[0] = nil
	a.parts = a.parts[1:]
}

// send sends the buffered response, and frees each chunk after it was sent. A disconnected caller
// is not an error.
func (a *answer) send(w http.ResponseWriter) {
	size := 0
	for name, values := range a.header {
		w.Header()[name] = values
	}
	for _, p := range a.parts {
		size += len(p)
	}
	if a.header.Get("Content-Length") == "" && size > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(size))
	}
	if a.code != 0 {
		w.WriteHeader(a.code)
	}
	control := http.NewResponseController(w)
	for len(a.parts) > 0 {
		_ = control.SetWriteDeadline(time.Now().Add(answerTime)) // a writer without deadlines is bounded by its caller
		if _, err := w.Write(a.parts[0]); err != nil {
			return
		}
		a.dropPart()
	}
}

// whole serves an answer that is buffered until the caller has read it. An answer beyond the limits is rejected with
// 429.
func (s *Server) whole(serve func(*answer, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		a := &answer{all: &s.answers, user: userOf(r), header: http.Header{}}
		defer a.drop()
		err := serve(a, r)
		a.unreserve()
		if a.full {
			w.Header().Set("Retry-After", "1")
			return &statusError{http.StatusTooManyRequests, errHeld}
		}
		if err != nil {
			return err
		}
		a.send(w)
		return nil
	}
}

// encode calls a function that encodes a response, at most maxEncoding at a time: the memory that
// an encoding needs in addition to the response is not counted.
func (s *Server) encode(r *http.Request, do func() error) error {
	select {
	case s.encoding <- struct{}{}:
		defer func() { <-s.encoding }()
		return do()
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

package critest

import (
	"bytes"
	"io"
	"sync"
)

// maxInput is how much of what nobody has read is kept, in bytes.
const maxInput = 4 << 20

// An input is what is sent to a process and was not read yet. Who sends never waits. A
// nil one throws everything away.
type input struct {
	mu     sync.Mutex
	text   bytes.Buffer
	closed bool
	more   chan struct{} // something has changed
}

func newInput() *input { return &input{more: make(chan struct{}, 1)} }

// add adds to it. What is too much is lost.
func (in *input) add(b []byte) {
	if in == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed {
		in.text.Write(b[:min(len(b), maxInput-in.text.Len())])
	}
	notify(in.more)
}

// close says that nothing more comes.
func (in *input) close() {
	if in == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	notify(in.more)
}

// Close is close, for a process that is killed while it reads.
func (in *input) Close() error {
	in.close()
	return nil
}

// notify leaves one message in a channel.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Read waits until there is something. One goroutine may read at a time.
func (in *input) Read(b []byte) (int, error) {
	for {
		in.mu.Lock()
		n, _ := in.text.Read(b) // the end is not that of the buffer
		closed := in.closed
		in.mu.Unlock()
		switch {
		case n > 0 || len(b) == 0:
			return n, nil
		case closed:
			return 0, io.EOF
		}
		<-in.more
	}
}

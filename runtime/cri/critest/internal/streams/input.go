package streams

import (
	"bytes"
	"io"
	"sync"

	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
)

// maxInput is the maximum number of unread bytes.
const maxInput = 4 << 20

// An input is the unread input of a process. Senders never block. A nil input discards everything.
type input struct {
	mu     sync.Mutex
	text   bytes.Buffer
	closed bool
	more   chan struct{} // receives when the input has changed

	// terminal means that a Read returns one line at most.
	terminal bool
	// ends has, for each Ctrl-D that was not read yet, the number of bytes before it.
	ends []int
	// reading is set while a Read waits. interrupted is set if Ctrl-C must end it.
	reading, interrupted bool
}

func newInput() *input { return &input{more: make(chan struct{}, 1)} }

// add appends input. Input beyond the limit is dropped.
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

// close ends the input.
func (in *input) close() {
	if in == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	notify(in.more)
}

// Close calls close. It unblocks a read of a process that is killed.
func (in *input) Close() error {
	in.close()
	return nil
}

// notify sends on the channel unless a message is pending.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Read waits until there is input. Only one goroutine may read at a time.
func (in *input) Read(b []byte) (int, error) {
	for {
		n, err := in.take(b)
		if n > 0 || len(b) == 0 || err != nil {
			return n, err
		}
		<-in.more
	}
}

// take reads the available input. It returns 0 and no error if a Read has to wait.
func (in *input) take(b []byte) (n int, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.interrupted:
		err = sh.ErrInterrupted
	case len(in.ends) > 0 && in.ends[0] == 0:
		in.ends, err = in.ends[1:], io.EOF
	default:
		n, _ = in.text.Read(b[:in.most(len(b))]) // an empty buffer is not the end
		for i := range in.ends {
			in.ends[i] -= n
		}
		if n == 0 && in.closed {
			err = io.EOF
		}
	}
	in.interrupted, in.reading = false, n == 0 && err == nil
	return n, err
}

// most returns how many of the next size bytes one Read may return.
func (in *input) most(size int) int {
	if len(in.ends) > 0 {
		size = min(size, in.ends[0])
	}
	if i := bytes.IndexByte(in.text.Bytes(), '\n'); in.terminal && i >= 0 {
		size = min(size, i+1)
	}
	return size
}

// maxEnds is the maximum number of unread Ctrl-D.
const maxEnds = 256

// end is Ctrl-D: the Read that reaches it returns io.EOF, and the next Read continues after it.
func (in *input) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.ends) < maxEnds {
		in.ends = append(in.ends, in.text.Len())
	}
	notify(in.more)
}

// interrupt is Ctrl-C: it discards unread input. It calls process, and then a pending Read ends.
func (in *input) interrupt(process func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.text.Reset()
	in.ends, in.interrupted = nil, in.reading
	process()
	notify(in.more)
}

package streams

import (
	"bytes"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
)

// A terminal turns keys into a process's input, as the line discipline of a Linux terminal does: Return is a
// newline, keys are echoed, Backspace erases, Ctrl-C interrupts, and Ctrl-D ends a line or the input.
type terminal struct {
	in *input

	mu        sync.Mutex
	echo      func([]byte) // shows typed keys; it must not block
	interrupt func()       // interrupts the process
	line      []byte       // typed, but not yet sent to the process
}

// newTerminal returns a terminal for a process that does not run yet. It shows no keys before echoTo is called.
func newTerminal() *terminal { return &terminal{echo: func([]byte) {}, interrupt: func() {}} }

// feed makes the terminal send lines to an input.
func (t *terminal) feed(in *input) { t.in, in.terminal = in, true }

// echoTo sets the function that shows typed keys.
func (t *terminal) echoTo(echo func(keys []byte)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.echo = echo
}

// control makes Ctrl-C interrupt a process.
func (t *terminal) control(p *sh.Process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.interrupt = p.Interrupt
}

const (
	ctrlC = 3
	ctrlD = 4
	// maxLine is the maximum length of a line, as on Linux. Further keys are dropped.
	maxLine = 4095
)

// add processes typed keys.
func (t *terminal) add(keys []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var shown []byte
	for _, key := range keys {
		echo, ends := t.key(key)
		if shown = append(shown, echo...); ends {
			t.echo(shown) // before the process reads the line
			shown = nil
			t.send(key)
		}
	}
	if len(shown) > 0 {
		t.echo(shown)
	}
}

// key adds a key to the line. It returns the echo, and reports whether the key ends the line.
func (t *terminal) key(key byte) (echo []byte, ends bool) {
	switch key {
	case '\r', '\n':
		t.line = append(t.line, '\n')
		return []byte("\r\n"), true
	case ctrlC:
		return []byte("^C"), true
	case ctrlD:
		return nil, true
	case '\b', 0x7f:
		if len(t.line) == 0 {
			return nil, false
		}
		_, size := utf8.DecodeLastRune(t.line)
		t.line = t.line[:len(t.line)-size]
		return []byte("\b \b"), false
	}
	if len(t.line) >= maxLine {
		return nil, false
	}
	t.line = append(t.line, key)
	if key < ' ' && key != '\t' {
		return []byte{'^', key + '@'}, false
	}
	return []byte{key}, false
}

// send sends the line that a key has ended.
func (t *terminal) send(key byte) {
	line := t.line
	t.line = nil
	switch {
	case key == ctrlC:
		t.in.interrupt(t.interrupt)
	case key == ctrlD && len(line) == 0:
		t.in.end()
	default:
		t.in.add(line)
	}
}

// close ends the keys.
func (t *terminal) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.in.add(t.line)
	t.line = nil
	t.in.close()
}

// onTerminal is a process's output on a terminal: it writes a carriage return before each newline.
type onTerminal struct{ out io.Writer }

func (w onTerminal) Write(b []byte) (int, error) {
	if _, err := w.out.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// maxEcho is the maximum echo that is queued for a client that does not read.
const maxEcho = 64 << 10

// A screen writes the echo before the later output from the process. If the client does not read, only the process
// waits for it, and not the keys' reader.
type screen struct {
	out  io.Writer     // set before the first Write
	turn chan struct{} // has a value during a write
	more chan struct{} // receives when there is echo

	mu     sync.Mutex
	echoed []byte
}

func newScreen() *screen {
	return &screen{turn: make(chan struct{}, 1), more: make(chan struct{}, 1)}
}

// echo enqueues echo. Echo beyond the limit is dropped.
func (s *screen) echo(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.echoed)+len(b) <= maxEcho {
		s.echoed = append(s.echoed, b...)
	}
	notify(s.more)
}

func (s *screen) Write(b []byte) (int, error) {
	s.turn <- struct{}{} // not a mutex: virtual time must pass while a client does not read
	defer func() { <-s.turn }()
	s.mu.Lock()
	text := append(s.echoed, b...)
	s.echoed = nil
	s.mu.Unlock()
	if len(text) == 0 {
		return 0, nil
	}
	if _, err := s.out.Write(text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// show writes echo until hide is called, which writes the rest.
func (s *screen) show() (hide func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-s.more:
				_, _ = s.Write(nil) // the process notices that the client has disconnected
			case <-end:
				_, _ = s.Write(nil) // likewise
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

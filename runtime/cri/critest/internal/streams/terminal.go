package streams

import (
	"bytes"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
)

// A terminal turns keys into the input of a process, as the line discipline of a Linux terminal does: Return is
// a newline, keys are echoed, Backspace erases, Ctrl-C interrupts, and Ctrl-D ends a line or the input.
type terminal struct {
	in *input

	mu        sync.Mutex
	echo      func([]byte) // shows typed keys; it must not block
	interrupt func()       // of the process
	line      []byte       // typed and not yet sent to the process
}

// newTerminal returns a terminal for a process that does not run yet. Until echoTo it shows no keys.
func newTerminal() *terminal { return &terminal{echo: func([]byte) {}, interrupt: func() {}} }

// feed has the keys go to an input.
func (t *terminal) feed(in *input) { t.in, in.terminal = in, true }

// echoTo passes the keys that the terminal shows to echo.
func (t *terminal) echoTo(echo func(keys []byte)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.echo = echo
}

// control has Ctrl-C interrupt a process.
func (t *terminal) control(p *sh.Process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.interrupt = p.Interrupt
}

const (
	ctrlC = 3
	ctrlD = 4
	// maxLine is the length of a line, as on Linux. Further keys are lost.
	maxLine = 4095
)

// add takes keys.
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

// send passes on the line that a key has ended.
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

// close says that no keys follow.
func (t *terminal) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.in.add(t.line)
	t.line = nil
	t.in.close()
}

// onTerminal is the output of a process on a terminal, which returns the carriage at each newline.
type onTerminal struct{ out io.Writer }

func (w onTerminal) Write(b []byte) (int, error) {
	if _, err := w.out.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// maxEcho is how much echo waits for a caller who does not read.
const maxEcho = 64 << 10

// A screen prints the echo before the output of the process that follows it. Only the process waits for a
// caller who does not read, and not the reader of the keys.
type screen struct {
	out  io.Writer     // set before the first Write
	turn chan struct{} // has a value while something is written
	more chan struct{} // there is echo

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
	s.turn <- struct{}{} // and no mutex: virtual time passes while a caller does not read
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

// show prints echo until hide is called, which prints the rest.
func (s *screen) show() (hide func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-s.more:
				_, _ = s.Write(nil) // the process notices the end of the caller
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

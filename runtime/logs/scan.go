package logs

import (
	"bytes"
	"errors"
	"io"
)

// maxPiece is how much of a line is held at a time: runtimes write no longer ones
// unless they are told to.
const maxPiece = 32 << 10

// A piece is a line, or a part of one that is longer than maxPiece.
type piece struct {
	text []byte // without the end of line; valid until the next one is read
	// offset is where it is in the file.
	offset       int64
	begins, ends bool // the line with it
}

// A scanner cuts what it reads into pieces. At the end it may be asked again, when
// there is more.
type scanner struct {
	r        io.Reader
	buf      []byte
	from, to int   // what of buf was read and is no piece yet
	offset   int64 // of that in the file
	inside   bool  // a line
	failed   error // of the last read, but for the end of the file
}

func newScanner(r io.Reader, offset int64) *scanner {
	return &scanner{r: r, buf: make([]byte, maxPiece), offset: offset}
}

// next returns the next piece, or io.EOF if the file has no further whole one.
func (s *scanner) next() (piece, error) {
	searched := 0
	for {
		waiting := s.buf[s.from:s.to]
		if i := bytes.IndexByte(waiting[searched:], '\n'); i >= 0 {
			return s.take(searched+i, true), nil
		}
		if len(waiting) == len(s.buf) {
			return s.take(len(waiting), false), nil
		}
		searched = len(waiting)
		if err := s.fill(); err != nil {
			return piece{}, err
		}
	}
}

// take makes a piece of the next n bytes.
func (s *scanner) take(n int, ends bool) piece {
	p := piece{text: s.buf[s.from : s.from+n], offset: s.offset, begins: !s.inside, ends: ends}
	if ends {
		n++
	}
	s.from += n
	s.offset += int64(n)
	s.inside = !ends
	return p
}

// fill reads more. It is only called if there is room for that.
func (s *scanner) fill() error {
	if s.from > 0 {
		s.to = copy(s.buf, s.buf[s.from:s.to])
		s.from = 0
	}
	n, err := s.r.Read(s.buf[s.to:])
	s.to += n
	s.failed = nil
	if !errors.Is(err, io.EOF) {
		s.failed = err
	}
	if n > 0 {
		return nil // an error comes again
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// rest returns what is left at the end of a file to which nothing is added any more.
func (s *scanner) rest() (piece, bool) {
	if s.from == s.to {
		return piece{}, false
	}
	return s.take(s.to-s.from, false), true
}

// read is how far the file was read.
func (s *scanner) read() int64 { return s.offset + int64(s.to-s.from) }

// each calls f with each piece up to the end of the file.
func (s *scanner) each(f func(piece) error) error {
	for {
		p, err := s.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f(p); err != nil {
			return err
		}
	}
}

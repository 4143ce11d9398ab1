package logs

import (
	"bytes"
	"errors"
	"io"
)

// maxPiece limits how much is held from a line in memory at a time. By default, no runtime writes
// longer lines.
const maxPiece = 32 << 10

// A piece is a line, or a chunk from a line longer than maxPiece.
type piece struct {
	text []byte // without the newline; valid until the next piece is read
	// offset is the position in the file.
	offset       int64
	begins, ends bool // whether the piece begins or ends its line
}

// A scanner splits a file into pieces. After io.EOF it can be called again when the file has grown.
type scanner struct {
	r        io.Reader
	buf      []byte
	from, to int   // the bytes in buf that are not part of a piece yet
	offset   int64 // of buf[from] in the file
	inside   bool  // the next piece continues a line
	failed   error // error of the last read, except io.EOF
}

func newScanner(r io.Reader, offset int64) *scanner {
	return &scanner{r: r, buf: make([]byte, maxPiece), offset: offset}
}

// next returns the next piece, or io.EOF if the file has no further complete one.
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

// take returns the next n bytes as a piece.
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

// fill reads more. The buffer must have room.
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
		return nil // the next read returns the error again
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// rest returns the incomplete line ending a file that no longer grows.
func (s *scanner) rest() (piece, bool) {
	if s.from == s.to {
		return piece{}, false
	}
	return s.take(s.to-s.from, false), true
}

// read returns how many bytes in the file were read.
func (s *scanner) read() int64 { return s.offset + int64(s.to-s.from) }

// each calls f with each piece up to the file's end.
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

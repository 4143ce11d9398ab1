package logs

import (
	"errors"
	"io"
	"time"
)

// stampFormat is the format for printed timestamps. They all have the same
// length.
const stampFormat = "2006-01-02T15:04:05.000000000Z07:00"

// errLimit ends a read at limitBytes.
var errLimit = errors.New("the limit of bytes is reached")

// A printer prints the log pieces that its window selects.
type printer struct {
	window
	out     [2]io.Writer
	lines   [2]line
	current entry // the last piece's entry
	valid   bool
	buf     []byte
	damage  *DamagedError
}

// A line is the state for a stream's current line, which may be printed in
// part.
type line struct {
	open bool
	skip bool // the line is older than the window
}

func newPrinter(w window, out, errs io.Writer) *printer {
	return &printer{window: w, out: [2]io.Writer{stdout: out, stderr: errs}}
}

// print prints a file piece.
func (p *printer) print(file string, piece piece) error {
	text := piece.text
	if piece.begins {
		if p.current, p.valid = parse(text); !p.valid {
			p.damaged(file, piece.offset, errFormat)
			return nil
		}
		text = text[p.current.text:]
	}
	if !p.valid || !p.wanted[p.current.stream] || p.out[p.current.stream] == nil {
		return nil
	}
	return p.write(text, piece)
}

// write prints a selected stream's text, unless it is too old.
func (p *printer) write(text []byte, piece piece) error {
	line := &p.lines[p.current.stream]
	p.buf = p.buf[:0]
	if piece.begins && !line.open {
		line.open, line.skip = true, p.current.time.Before(p.since)
		if p.timestamps {
			p.buf = append(p.current.time.AppendFormat(p.buf, stampFormat), ' ')
		}
	}
	p.buf = append(p.buf, text...)
	if piece.ends && !p.current.partial {
		p.buf = append(p.buf, '\n')
		line.open = false
	}
	if line.skip {
		return nil
	}
	return p.send(p.out[p.current.stream])
}

// send writes the buffer to out with one call to Write.
func (p *printer) send(out io.Writer) error {
	if p.limit >= 0 && int64(len(p.buf)) > p.limit {
		p.buf = p.buf[:p.limit]
	}
	n, err := out.Write(p.buf)
	if p.limit < 0 || err != nil {
		return err
	}
	if p.limit -= int64(n); p.limit == 0 {
		return errLimit
	}
	return nil
}

// damaged records damage in a file.
func (p *printer) damaged(file string, offset int64, err error) {
	if p.damage == nil {
		p.damage = &DamagedError{File: file, Offset: offset, Err: err}
	}
	p.damage.Places++
}

// tooOld reports whether the window begins after the given time, so that it excludes all earlier lines.
func (p *printer) tooOld(written time.Time) bool { return written.Before(p.since) }

package spdy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// maxPiece is the maximum size of data returned at a time.
	maxPiece = 32 << 10
	// maxData is the maximum size of data sent in a frame.
	maxData = 1 << 20
	// maxControl is the maximum size of a frame that controls a stream or the connection.
	maxControl = 64 << 10
)

// The SPDY 3 control frame types that are used here.
const (
	synStream = 1
	synReply  = 2
	rstStream = 3
	ping      = 6
	goAway    = 7
)

// flagFin marks a stream's last frame from this end.
const flagFin = 1

// version is the version of SPDY 3.1's frames.
const version = 3

// cancelled is the status code for a reset stream.
var cancelled = []byte{0, 0, 0, 5}

// A frame is the head of a SPDY frame. A control frame of the connection has another number in place of the stream.
type frame struct {
	control bool
	kind    uint16
	stream  uint32
	final   bool
	size    int // without the head
}

// readHead reads a frame's head: up to the data, or up to a control frame's stream.
func readHead(r io.Reader) (f frame, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return f, err
	}
	first, second := binary.BigEndian.Uint32(head[:4]), binary.BigEndian.Uint32(head[4:])
	f = frame{final: second>>24&flagFin != 0, size: int(second & 0xffffff), control: first>>31 == 1}
	if !f.control {
		f.stream = first
		return f, nil
	}
	if v := first >> 16 & 0x7fff; v != version {
		return f, fmt.Errorf("spdy: a frame is of version %d", v)
	}
	f.kind = uint16(first)
	if f.size > maxControl {
		return f, fmt.Errorf("spdy: a frame of kind %d has %d bytes, more than %d", f.kind, f.size, maxControl)
	}
	return f, nil
}

// readBody reads the rest of a control frame, and returns the part after the stream.
func readBody(r io.Reader, f *frame) ([]byte, error) {
	body := make([]byte, f.size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, cut(err)
	}
	if len(body) < 4 {
		return nil, fmt.Errorf("spdy: a frame of kind %d has %d bytes", f.kind, len(body))
	}
	f.stream = binary.BigEndian.Uint32(body) & 0x7fffffff
	return body[4:], nil
}

// cut converts io.EOF within a frame to io.ErrUnexpectedEOF.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendHead appends the beginning of a data frame.
func appendHead(b []byte, stream uint32, flags byte, size int) []byte {
	b = binary.BigEndian.AppendUint32(b, stream)
	return binary.BigEndian.AppendUint32(b, uint32(flags)<<24|uint32(size))
}

// appendControl appends any other frame.
func appendControl(b []byte, kind uint16, stream uint32, body []byte) []byte {
	b = appendHead(b, 1<<31|version<<16|uint32(kind), 0, 4+len(body))
	return append(binary.BigEndian.AppendUint32(b, stream), body...)
}

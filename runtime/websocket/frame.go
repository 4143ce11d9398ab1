package websocket

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxMessage is a message's maximum size, in bytes.
const maxMessage = 1 << 20

// The RFC 6455 frame types that this package supports.
const (
	opContinue = 0
	opText     = 1
	opBinary   = 2
	opClose    = 8
	opPing     = 9
	opPong     = 10
)

// maxControl is the maximum size of a frame that controls the connection, in bytes.
const maxControl = 125

// maxPiece is the size of the chunks in which messages are read, in bytes.
const maxPiece = 32 << 10

// A frame is a part of a message, or a control frame. Its data has not been read yet.
type frame struct {
	op    byte
	final bool
	// left counts the data bytes that are not read yet, done those that are.
	left, done int
	masked     bool
	mask       [4]byte
}

func (f frame) controls() bool { return f.op >= opClose }

// readFrame reads the head of a frame with at most the given size. Frames from a client must be
// masked.
func readFrame(r io.Reader, most int, masked bool) (frame, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, cut(err)
	}
	f := frame{op: head[0] & 0x0f, final: head[0]&0x80 != 0, masked: masked}
	if head[0]&0x70 != 0 || (head[1]&0x80 != 0) != masked {
		return frame{}, errors.New("websocket: a frame is not as it has to be")
	}
	size, err := readSize(r, head[1]&0x7f)
	if err != nil {
		return frame{}, err
	}
	if f.controls() {
		most = maxControl
	}
	if size > uint64(most) || f.controls() && !f.final {
		return frame{}, fmt.Errorf("websocket: a frame of %d bytes is longer than %d, or cut", size, most)
	}
	f.left = int(size)
	if masked {
		_, err = io.ReadFull(r, f.mask[:])
	}
	return f, cut(err)
}

// read reads at most n bytes from the frame's data, and appends them to b.
func (f *frame) read(r io.Reader, b []byte, n int) ([]byte, error) {
	n = min(n, f.left)
	begin := len(b)
	b = slices.Grow(b, n)[:begin+n]
	if _, err := io.ReadFull(r, b[begin:]); err != nil {
		return b[:begin], cut(err)
	}
	if f.masked {
		apply(f.mask, f.done, b[begin:])
	}
	f.left, f.done = f.left-n, f.done+n
	return b, nil
}

// readSize reads the rest of a length that begins with seven bits.
func readSize(r io.Reader, begin byte) (uint64, error) {
	var b [8]byte
	switch begin {
	case 126:
		_, err := io.ReadFull(r, b[:2])
		return uint64(binary.BigEndian.Uint16(b[:])), cut(err)
	case 127:
		_, err := io.ReadFull(r, b[:])
		return binary.BigEndian.Uint64(b[:]), cut(err)
	}
	return uint64(begin), nil
}

// cut converts io.EOF to io.ErrUnexpectedEOF: the peer closed the connection without a close frame.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// apply masks or unmasks data that begins at the given offset of a frame.
func apply(mask [4]byte, at int, data []byte) {
	for i := range data {
		data[i] ^= mask[(at+i)%4]
	}
}

// appendFrame appends a whole message as one frame, masked with new random bytes if it is sent by a client.
func appendFrame(b []byte, op byte, data []byte, masked bool) []byte {
	bit := byte(0)
	if masked {
		bit = 0x80
	}
	b = append(b, 0x80|op)
	switch n := len(data); {
	case n <= maxControl:
		b = append(b, bit|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, bit|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, bit|127), uint64(n))
	}
	if !masked {
		return append(b, data...)
	}
	var mask [4]byte
	_, _ = rand.Read(mask[:]) // rand.Read does not fail
	b = append(b, mask[:]...)
	begin := len(b)
	b = append(b, data...)
	apply(mask, 0, b[begin:])
	return b
}

package spdy

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

const (
	// maxHeaders limits a stream's headers.
	maxHeaders = 64
	// maxField is the maximum length of a header's name, and of its value.
	maxField = 8 << 10
)

// zlibBegin is the zlib header: a window of 32 KiB and no dictionary.
var zlibBegin = []byte{0x78, 0x01}

// flushed is an empty block, which lets the reader decompress everything before it.
var flushed = []byte{0, 0, 0, 0xff, 0xff}

// appendHeader appends a header in an uncompressed block, which every decompressor can read.
func appendHeader(b []byte, header map[string]string, first bool) []byte {
	text := binary.BigEndian.AppendUint32(nil, uint32(len(header)))
	for _, name := range slices.Sorted(maps.Keys(header)) {
		text = appendField(appendField(text, name), header[name])
	}
	if first {
		b = append(b, zlibBegin...)
	}
	b = binary.LittleEndian.AppendUint16(append(b, 0), uint16(len(text)))
	b = binary.LittleEndian.AppendUint16(b, ^uint16(len(text)))
	return append(append(b, text...), flushed...)
}

func appendField(b []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...)
}

// A headerReader reads headers, which share one compression state.
type headerReader struct {
	part bytes.Reader // the compressed bytes
	text io.Reader
}

func (h *headerReader) read(part []byte) (http.Header, error) {
	h.part.Reset(part)
	if h.text == nil {
		var err error
		if h.text, err = zlib.NewReaderDict(&h.part, []byte(dictionary)); err != nil {
			return nil, cut(err)
		}
	}
	var n uint32
	if err := binary.Read(h.text, binary.BigEndian, &n); err != nil {
		return nil, cut(err)
	}
	if n > maxHeaders {
		return nil, fmt.Errorf("%d headers are more than %d", n, maxHeaders)
	}
	header := http.Header{}
	for range n {
		name, err := h.field()
		if err != nil {
			return nil, err
		}
		values, err := h.field()
		if err != nil {
			return nil, err
		}
		for value := range strings.SplitSeq(values, "\x00") {
			header.Add(name, value)
		}
	}
	return header, nil
}

var errLong = errors.New("a field is too long")

func (h *headerReader) field() (string, error) {
	var n uint32
	if err := binary.Read(h.text, binary.BigEndian, &n); err != nil {
		return "", cut(err)
	}
	if n > maxField {
		return "", errLong
	}
	text := make([]byte, n)
	_, err := io.ReadFull(h.text, text)
	return string(text), cut(err)
}

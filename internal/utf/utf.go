// Package utf decodes texts in Unicode's encodings: tools such as PowerShell write UTF-16.
package utf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// An encoding is the number of bytes of a code unit, and their order.
type encoding struct {
	name  string
	width int
	order binary.ByteOrder
}

var (
	errOdd       = errors.New("it ends within a character")
	errSurrogate = errors.New("it has half a surrogate pair")
	errRune      = errors.New("it has a code point that does not exist")
)

// Decode returns a text of YAML or JSON in UTF-8, without its byte order mark. It recognizes UTF-8, UTF-16 and UTF-32 by the
// byte order mark, or by the zeros beside the first character, which is ASCII in both formats (YAML 1.2, section 5.2). UTF-8
// is returned unchanged, whether it is valid or not. The result has at most one and a half times the length of the text.
func Decode(text []byte) ([]byte, error) {
	e, mark := detect(text)
	text = text[mark:]
	if e.width == 1 {
		return text, nil
	}
	decoded, err := e.decode(text)
	if err != nil {
		return nil, fmt.Errorf("the text is not valid %s: %w", e.name, err)
	}
	return decoded, nil
}

// detect returns the encoding of a text, and the length of its byte order mark.
func detect(text []byte) (e encoding, mark int) {
	at := func(i int) int { // -1 after the end
		if i < len(text) {
			return int(text[i])
		}
		return -1
	}
	little16, big16 := encoding{"UTF-16", 2, binary.LittleEndian}, encoding{"UTF-16", 2, binary.BigEndian}
	little32, big32 := encoding{"UTF-32", 4, binary.LittleEndian}, encoding{"UTF-32", 4, binary.BigEndian}
	switch a, b, c, d := at(0), at(1), at(2), at(3); {
	case a == 0xef && b == 0xbb && c == 0xbf:
		return encoding{width: 1}, 3
	case a == 0xff && b == 0xfe && c == 0 && d == 0:
		return little32, 4
	case a == 0 && b == 0 && c == 0xfe && d == 0xff:
		return big32, 4
	case a == 0xff && b == 0xfe:
		return little16, 2
	case a == 0xfe && b == 0xff:
		return big16, 2
	case a > 0 && b == 0 && c == 0 && d == 0:
		return little32, 0
	case a == 0 && b == 0 && c == 0 && d > 0:
		return big32, 0
	case a > 0 && b == 0 && c > 0:
		return little16, 0
	case a == 0 && b > 0 && c == 0:
		return big16, 0
	}
	return encoding{width: 1}, 0
}

func (e encoding) decode(text []byte) ([]byte, error) {
	if len(text)%e.width != 0 {
		return nil, errOdd
	}
	decoded := make([]byte, 0, len(text))
	for len(text) > 0 {
		var r rune
		if e.width == 4 {
			unit := e.order.Uint32(text)
			if r = rune(unit); unit > utf8.MaxRune || !utf8.ValidRune(r) {
				return nil, errRune
			}
		} else if r = rune(e.order.Uint16(text)); utf16.IsSurrogate(r) {
			if text = text[e.width:]; len(text) == 0 {
				return nil, errSurrogate
			}
			if r = utf16.DecodeRune(r, rune(e.order.Uint16(text))); r == utf8.RuneError {
				return nil, errSurrogate
			}
		}
		text = text[e.width:]
		decoded = utf8.AppendRune(decoded, r)
	}
	return decoded, nil
}

package utf_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/podsync/podsync/internal/utf"
)

// encode returns a text in UTF-16 or UTF-32.
func encode(text string, width int, order binary.AppendByteOrder) (encoded []byte) {
	for _, r := range text {
		if width == 4 {
			encoded = order.AppendUint32(encoded, uint32(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			encoded = order.AppendUint16(encoded, unit)
		}
	}
	return encoded
}

func TestDecode(t *testing.T) {
	const text = "kind: Pod # näher 日本 😀\n---\n"
	for name, given := range map[string][]byte{
		"UTF-8":                     []byte(text),
		"UTF-8, mark":               []byte("\ufeff" + text),
		"UTF-16, little, mark":      encode("\ufeff"+text, 2, binary.LittleEndian),
		"UTF-16, big, mark":         encode("\ufeff"+text, 2, binary.BigEndian),
		"UTF-16, little, no mark":   encode(text, 2, binary.LittleEndian),
		"UTF-16, big, no mark":      encode(text, 2, binary.BigEndian),
		"UTF-32, little, mark":      encode("\ufeff"+text, 4, binary.LittleEndian),
		"UTF-32, big, mark":         encode("\ufeff"+text, 4, binary.BigEndian),
		"UTF-32, little, no mark":   encode(text, 4, binary.LittleEndian),
		"UTF-32, big, without mark": encode(text, 4, binary.BigEndian),
	} {
		before := bytes.Clone(given)
		if got, err := utf.Decode(given); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if !bytes.Equal(given, before) {
			t.Errorf("%s: the argument was changed", name)
		}
	}
}

func TestTextsThatAreNotValid(t *testing.T) {
	for name, given := range map[string][]byte{
		"odd length":               {0xff, 0xfe, 'a'},
		"half of a pair":           {0xff, 0xfe, 0x3d, 0xd8, 'a', 0},
		"half of a pair, at end":   {0xff, 0xfe, 0x3d, 0xd8},
		"beyond Unicode":           {0xff, 0xfe, 0, 0, 0, 0, 0x11, 0},
		"beyond a rune's range":    {0xff, 0xfe, 0, 0, 0xff, 0xff, 0xff, 0xff},
		"a surrogate in UTF-32":    {0xff, 0xfe, 0, 0, 0x3d, 0xd8, 0, 0},
		"second half of a pair":    {0xfe, 0xff, 0xde, 0x00, 0, 'a'},
		"UTF-32 of a broken width": {0, 0, 0xfe, 0xff, 0, 0},
	} {
		if got, err := utf.Decode(given); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, given := range [][]byte{nil, {}, {0xff}, {0xfe}, {0}, {'a'}, {'a', 0}, {0xff, 0xff}} { // these are left to the parser
		if got, err := utf.Decode(given); err != nil || !bytes.Equal(got, given) {
			t.Errorf("%x: %x, %v", given, got, err)
		}
	}
}

// What is decoded is bounded, and UTF-8 is unchanged but for its mark.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\xff\xfea\x00"))
	f.Add([]byte("\x00\x00\xfe\xff\x00\x01\xf6\x00"))
	f.Add([]byte("a: b"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := utf.Decode(text)
		if err != nil {
			return
		}
		if len(got) > len(text)+len(text)/2 {
			t.Errorf("%d bytes of %d", len(got), len(text))
		}
		if utf8.Valid(text) && !bytes.Contains(text, []byte{0}) && !bytes.Equal(got, bytes.TrimPrefix(text, []byte("\ufeff"))) {
			t.Errorf("%q became %q", text, got)
		}
	})
}

package mounts

import (
	"errors"
	"io"
	"strings"
)

const (
	// optionalField is the number of fields before the optional ones of a line. The optional fields
	// describe the propagation of the mount and end with a field "-".
	optionalField = 6
	// maxWord limits the bytes of an identifier or an optional field that are kept. Identifiers
	// are shorter.
	maxWord = 24
)

// shared reports whether the mount with the given ID is shared. The table has the format of Linux's
// /proc/self/mountinfo.
func shared(table io.Reader, id string) (bool, error) {
	p := propagation{id: id}
	if err := scan(table, p.next); err != nil {
		return false, err
	}
	if !p.found {
		return false, errors.New("the table of mounts has no line for mount " + id)
	}
	return p.shared, nil
}

// A propagation reads a table byte by byte, as a [scanner] does, and finds one mount's line.
type propagation struct {
	id    string
	field int
	word  []byte
	// ours means that the line describes the mount, options that the field is an optional one.
	ours, options bool
	found, shared bool
}

// next processes a byte. It reports whether the line has the kernel's format.
func (p *propagation) next(b byte) bool {
	switch {
	case b == ' ':
		p.end()
		p.field++
	case b == '\n':
		if p.field < pointField {
			return false
		}
		p.end()
		p.field, p.ours = 0, false
	case len(p.word) < maxWord:
		p.word = append(p.word, b)
	}
	return true
}

// end processes the field that has ended.
func (p *propagation) end() {
	word := string(p.word)
	p.word = p.word[:0]
	if p.field == 0 {
		p.ours, p.options = word == p.id, true
		p.found = p.found || p.ours
	}
	if p.field < optionalField || !p.ours {
		return
	}
	if word == "-" {
		p.options = false
	}
	p.shared = p.shared || p.options && strings.HasPrefix(word, "shared:")
}

package logs

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// A read error is not mistaken for a truncated file: the scanner keeps the error.
func TestScannerReturnsTheErrorThatEndedIt(t *testing.T) {
	broken := errors.New("input/output error")
	for name, tt := range map[string]struct {
		then error
		want error
	}{"end": {io.EOF, nil}, "broken": {broken, broken}} {
		s := newScanner(io.MultiReader(strings.NewReader("one\ntwo\n"), iotest.ErrReader(tt.then)), 0)
		lines := 0
		err := s.each(func(piece) error { lines++; return nil })
		if !errors.Is(err, tt.want) || !errors.Is(s.failed, tt.want) || lines != 2 {
			t.Errorf("%s: %v and %v after %d lines, want %v after 2", name, err, s.failed, lines, tt.want)
		}
	}
}

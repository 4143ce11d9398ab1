package local

import (
	"strings"
	"testing"
)

// For any content of an env file, the parser terminates, and each value is a part of the file
// without quotes.
func FuzzParseKey(f *testing.F) {
	f.Add("A='1'\nB='two\nlines' # comment\r\n", "B")
	f.Add("A= x\n=\nB='", "A")
	f.Fuzz(func(t *testing.T, text, key string) {
		value, err := parseKey(text, key)
		if err != nil {
			if len(err.Error()) > 200 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if strings.Contains(value, "'") || !strings.Contains(strings.ReplaceAll(text, "\r\n", "\n"), value) {
			t.Errorf("%q has %q", text, value)
		}
	})
}

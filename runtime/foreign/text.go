package foreign

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Max is the maximum text length in bytes. MaxWord is that for a reason, a name or a version, which are a few
// words at most.
const (
	Max     = 2 << 10
	MaxWord = 128
)

// Line returns s on one line. Each control character, line break, mark that changes a text's direction and byte
// that is not UTF-8 becomes a Go escape sequence, such as \n, \x1b or \u202e. From a text longer than Max it keeps
// the beginning and the end, because causes are at an error's end.
func Line(s string) string { return Cut(s, Max) }

// Word is Line with the limit MaxWord.
func Word(s string) string { return Cut(s, MaxWord) }

// Text is Line for a text with several lines, such as a command's output: it keeps line feeds and
// tabs.
func Text(s string) string { return bound(s, Max, isHarmlessInText) }

// Cut is Line with another limit, at least 64 bytes.
func Cut(s string, limit int) string { return bound(s, limit, isHarmless) }

// CutText is Text with another limit, at least 64 bytes.
func CutText(s string, limit int) string { return bound(s, limit, isHarmlessInText) }

// The mark for omitted bytes says how many they are.
const (
	markBegin, markEnd = "...[omitted ", " bytes]..."
	maxMark            = len(markBegin + "9223372036854775807" + markEnd)
)

func bound(s string, limit int, harmless func(rune) bool) string {
	if len(s) <= limit && isClean(s, harmless) {
		return s
	}
	if escaped, rest := front(s, limit, harmless); rest == "" {
		return escaped
	}
	half := (max(limit, 64) - maxMark) / 2
	begin, rest := front(s, half, harmless)
	middle, end := back(rest, half, harmless)
	return fmt.Sprint(begin, markBegin, len(middle), markEnd, end)
}

func isClean(s string, harmless func(rune) bool) bool {
	for i, r := range s {
		if !harmless(r) || r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)) {
			return false
		}
	}
	return true
}

func isHarmless(r rune) bool {
	return !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r) && r != '\u2028' && r != '\u2029'
}

func isHarmlessInText(r rune) bool { return r == '\n' || r == '\t' || isHarmless(r) }

// front returns s's escaped beginning in at most limit bytes, and what remains.
func front(s string, limit int, harmless func(rune) bool) (escaped, rest string) {
	var b strings.Builder
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		unit := escape(r, s[:size], harmless)
		if b.Len()+len(unit) > limit {
			break
		}
		b.WriteString(unit)
		s = s[size:]
	}
	return b.String(), s
}

// back returns s's escaped end in at most limit bytes, and what precedes it.
func back(s string, limit int, harmless func(rune) bool) (before, escaped string) {
	var units []string
	for length := 0; s != ""; {
		r, size := utf8.DecodeLastRuneInString(s)
		unit := escape(r, s[len(s)-size:], harmless)
		if length += len(unit); length > limit {
			break
		}
		units = append(units, unit)
		s = s[:len(s)-size]
	}
	var b strings.Builder
	for i := len(units) - 1; i >= 0; i-- {
		b.WriteString(units[i])
	}
	return s, b.String()
}

// escape returns a character, or its escape sequence if it is not harmless.
func escape(r rune, encoded string, harmless func(rune) bool) string {
	switch {
	case r == utf8.RuneError && len(encoded) == 1:
		return fmt.Sprintf(`\x%02x`, encoded[0])
	case harmless(r):
		return encoded
	case r == '\n':
		return `\n`
	case r == '\t':
		return `\t`
	case r == '\r':
		return `\r`
	case r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

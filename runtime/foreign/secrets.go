package foreign

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// minSecret is the shortest value's length that is redacted, in bytes. Shorter ones, such as "1" or "dev", are
	// in most texts.
	minSecret = 4
	// maxSecrets is how many value bytes are kept.
	maxSecrets = 256 << 10
	// Redacted replaces a secret in a text.
	Redacted = "[redacted]"
	// Withheld replaces a whole text that may contain secrets.
	Withheld = "[withheld, because it may contain values of Secrets]"
)

// Secrets are values that must not be in others' texts. The zero value has none. Secrets prints no value.
type Secrets struct {
	// forms are the forms in which a value may occur, the longest first, because one may contain another.
	forms []form
	size  int
	// full means that there are more values than can be kept.
	full bool
}

// A form is a value as it may be in a text. If it is longer than a text can be, only its beginning and its end are kept.
type form struct {
	whole, begin, end string
	length            int
}

// Add adds a value. Values below four bytes are not added.
func (s *Secrets) Add(value string) {
	if len(value) < minSecret || s.full {
		return
	}
	for _, text := range written(value) {
		f := form{whole: text, begin: text, end: text, length: len(text)}
		if len(text) > Max {
			f = form{begin: strings.Clone(text[:Max/2]), end: strings.Clone(text[len(text)-Max/2:]), length: len(text)}
		}
		at, found := slices.BinarySearchFunc(s.forms, f, compareForms)
		if found {
			continue
		}
		if s.size += min(len(text), Max); s.size > maxSecrets {
			*s = Secrets{full: true}
			return
		}
		s.forms = slices.Insert(s.forms, at, f)
	}
}

func compareForms(a, b form) int {
	if a.length != b.length {
		return b.length - a.length
	}
	return strings.Compare(a.begin+a.end, b.begin+b.end)
}

// Redact returns text without the values, also where [Line] has cut one in two. If there are too many values, it
// withholds the text.
func (s *Secrets) Redact(text string) string {
	if s.full && text != "" {
		return Withheld
	}
	for _, f := range s.forms {
		if f.whole != "" {
			text = strings.ReplaceAll(text, f.whole, Redacted)
		}
	}
	var done strings.Builder
	for {
		before, mark, after, found := cutMark(text)
		if !found {
			return done.String() + text
		}
		before, text = s.redactHalves(before, after)
		done.WriteString(before + mark)
	}
}

// redactHalves removes the value that a cut between two texts has split.
func (s *Secrets) redactHalves(before, after string) (string, string) {
	first, second := 0, 0
	for _, f := range s.forms {
		first, second = max(first, overlap(before, f.begin)), max(second, overlap(f.end, after))
	}
	if first > 0 {
		before = before[:len(before)-first] + Redacted
	}
	if second > 0 {
		after = Redacted + after[second:]
	}
	return before, after
}

// String does not print the values.
func (s *Secrets) String() string { return Redacted }

// GoString is String, for the verb %#v.
func (s *Secrets) GoString() string { return Redacted }

// cutMark cuts a text at its first mark for omitted bytes.
func cutMark(text string) (before, mark, after string, found bool) {
	for at := 0; ; {
		i := strings.Index(text[at:], markBegin)
		if i < 0 {
			return text, "", "", false
		}
		at += i
		digits := text[at+len(markBegin):]
		rest := strings.TrimLeft(digits, "0123456789")
		if end, ok := strings.CutPrefix(rest, markEnd); ok {
			return text[:at], text[at : len(text)-len(end)], end, true
		}
		at += len(markBegin)
	}
}

// overlap returns how long the longest end in a is with which b begins.
func overlap(a, b string) int {
	for n := min(len(a), len(b)); n > 0; n-- {
		if a[len(a)-n:] == b[:n] {
			return n
		}
	}
	return 0
}

// written returns the forms in which programs write a value: as it is, with escape sequences, in quotes, in quotes
// within quotes, in JSON and in URLs.
func written(value string) []string {
	quoted := unquoted(strconv.Quote(value))
	forms := []string{value, escapeAll(value, isHarmless), escapeAll(value, isHarmlessInText), quoted, unquoted(strconv.Quote(quoted)), url.QueryEscape(value), url.PathEscape(value)}
	if inJSON, err := json.Marshal(value); err == nil {
		forms = append(forms, unquoted(string(inJSON)))
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

func unquoted(s string) string { return s[1 : len(s)-1] }

// escapeAll is Line or Text without a limit.
func escapeAll(s string, harmless func(rune) bool) string {
	escaped, _ := front(s, len(s)*len(`\U0010ffff`), harmless)
	return escaped
}

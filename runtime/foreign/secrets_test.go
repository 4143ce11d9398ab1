package foreign_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/foreign"
)

func TestSecretsAreRedacted(t *testing.T) {
	const value = "k3y\n\"ß/ &\x1b"
	var s foreign.Secrets
	s.Add(value)
	s.Add("s3cr")
	inJSON, _ := json.Marshal(value)
	for name, text := range map[string]string{
		"plain": value, "line": foreign.Line(value), "text": foreign.Text(value), "quoted": fmt.Sprintf("%q", value), "twice": fmt.Sprintf("%q", fmt.Sprintf("%q", value)),
		"JSON": string(inJSON), "query": url.QueryEscape(value), "path": url.PathEscape(value),
	} {
		got := s.Redact("exec /bin/app-" + text + "-s3cr: not found")
		if !strings.Contains(got, foreign.Redacted) || strings.Contains(got, "k3y") || strings.Contains(got, "s3cr") || !strings.HasSuffix(got, ": not found") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if text := "nothing of it"; s.Redact(text) != text {
		t.Errorf("%q", s.Redact(text))
	}
	if got := fmt.Sprintf("%v %+v %#v", &s, &s, &s); strings.Contains(got, "s3cr") {
		t.Errorf("printed: %s", got)
	}
}

// A value that a cut has split leaves neither half.
func TestCutSecretsAreRedacted(t *testing.T) {
	for _, length := range []int{40, 1000, 2047, 2048, 2049, 30 << 10} {
		value := strings.Repeat("0123456789abcdefghijk", length/21+1)[:length]
		var s foreign.Secrets
		s.Add(value)
		for shift := 0; shift < length+1100; shift += max(1, length/23) {
			text := foreign.Line(strings.Repeat("x", 1100) + value + strings.Repeat("x", shift))
			text = text[min(shift, 900):]
			if got := s.Redact(text); strings.ContainsAny(strings.ReplaceAll(strings.ReplaceAll(cut(got), foreign.Redacted, ""), "x", ""), "0123456789fghijk") {
				t.Fatalf("a value of %d bytes, %d before the end: %s", length, shift, got)
			}
		}
		for _, text := range []string{"exec: /bin/app-" + value + ": no such file", value, value + value} {
			if got := s.Redact(foreign.Line(text)); strings.Contains(got, "789abc") {
				t.Fatalf("a value of %d bytes: %s", length, got)
			}
		}
	}
}

func TestSecretsInSeveralCutTexts(t *testing.T) {
	value := strings.Repeat("0123456789abcdefghijk", 200)
	var s foreign.Secrets
	s.Add(value)
	line := foreign.Line("exec " + value + ": no such file")
	if got := s.Redact(line + "; " + line + "; " + line); strings.Contains(got, "789") || strings.Count(got, "no such file") != 3 {
		t.Errorf("%q", got)
	}
}

// cut removes the mark for omitted bytes.
func cut(s string) string {
	before, after, found := strings.Cut(s, "...[omitted ")
	if !found {
		return s
	}
	_, after, _ = strings.Cut(after, " bytes]...")
	return before + after
}

func TestTooManySecretsWithholdTheText(t *testing.T) {
	var s foreign.Secrets
	for i := range 200 {
		s.Add(fmt.Sprint(i) + strings.Repeat("s", 4<<10))
	}
	if got := s.Redact("app-last"); got != foreign.Withheld {
		t.Errorf("%q", got)
	}
	if got := s.Redact(""); got != "" {
		t.Errorf("%q", got)
	}
}

package loop

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v2"
)

// quoting are the errors of the YAML parser that quote what is in the file. It may hold
// secrets, so that they are told in other words, with the line of what they are about.
var quoting = []struct {
	says *regexp.Regexp
	// before precedes in the text what the parser quotes.
	before, problem string
}{
	{regexp.MustCompile(`(?s)^yaml: unknown anchor '(.*)' referenced`), "*", "an alias (*) is of no anchor (&); a text that begins with * needs quotes"},
	{regexp.MustCompile(`(?s)^yaml: anchor '(.*)' value contains itself`), "&", "an anchor (&) has an alias (*) of itself in its value"},
	{regexp.MustCompile("(?s)^yaml: cannot decode .* as a (.*)$"), "", "a value is not what its tag (!) says; a text that begins with ! needs quotes"},
	{regexp.MustCompile(`(?s)^yaml: (invalid map key)`), "{{", "a key is neither a text nor a number; a text that begins with { needs quotes"},
	{regexp.MustCompile(`(?s)^yaml: (control characters) are not allowed`), "\x00", "control characters are not allowed"},
}

// withoutValues returns an error of the parser without values of the text.
func withoutValues(err error, text []byte) error {
	for _, q := range quoting {
		if found := q.says.FindStringSubmatch(err.Error()); found != nil {
			return errors.New("yaml: " + at(text, q.before, found[1]) + q.problem)
		}
	}
	var duplicates *yaml.TypeError
	if errors.As(err, &duplicates) {
		return errors.New("yaml: " + strings.Join(duplicates.Errors, ", "))
	}
	return err
}

// at says in which line of a text something is, nothing if it is not found.
func at(text []byte, before, quoted string) string {
	i := -1
	switch before {
	case "{{": // what the parser quotes is not in the text as it is
		i = bytes.Index(text, []byte(before))
	case "\x00":
		i = bytes.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n\u0085", r) })
	default:
		i = bytes.Index(text, []byte(before+quoted))
	}
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("line %d: ", 1+bytes.Count(text[:i], []byte("\n")))
}

package source

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v2"
)

// quoting lists the YAML parser's errors that quote the file. The file may contain secrets, so
// these errors are reworded, with the line number.
var quoting = []struct {
	says *regexp.Regexp
	// find returns the position in the text of the part that the parser quotes, -1 if it is not found.
	find    func(text []byte, quoted string) int
	problem string
}{
	{regexp.MustCompile(`(?s)^yaml: unknown anchor '(.*)' referenced`), after("*"), "an alias (*) is of no anchor (&); a text that begins with * needs quotes"},
	{regexp.MustCompile(`(?s)^yaml: anchor '(.*)' value contains itself`), after("&"), "an anchor (&) has an alias (*) of itself in its value"},
	{regexp.MustCompile("(?s)^yaml: cannot decode .* as a (.*)$"), after(""), "a value is not what its tag (!) says; a text that begins with ! needs quotes"},
	{regexp.MustCompile(`(?s)^yaml: (invalid map key)`), mapAsKey, "a key is neither a text nor a number; a text that begins with { needs quotes"},
	{regexp.MustCompile(`(?s)^yaml: (control characters) are not allowed`), controlCharacter, "control characters are not allowed"},
}

// after finds the quoted text after a mark.
func after(mark string) func([]byte, string) int {
	return func(text []byte, quoted string) int { return bytes.Index(text, []byte(mark+quoted)) }
}

// mapAsKey finds a template such as {{ .Name }}, which YAML parses as a map that is a map's key.
func mapAsKey(text []byte, _ string) int { return bytes.Index(text, []byte("{{")) }

func controlCharacter(text []byte, _ string) int {
	return bytes.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n\u0085", r) })
}

// withoutValues returns a parser error without values from the text.
func withoutValues(err error, text []byte) error {
	for _, q := range quoting {
		if found := q.says.FindStringSubmatch(err.Error()); found != nil {
			return errors.New("yaml: " + lineAt(text, q.find(text, found[1])) + q.problem)
		}
	}
	return err
}

// shift adds to the line numbers in a parser error.
func shift(err error, by int) error {
	var duplicates *yaml.TypeError
	if errors.As(err, &duplicates) {
		messages := make([]string, len(duplicates.Errors))
		for i, message := range duplicates.Errors {
			messages[i] = shiftLine(message, by)
		}
		return errors.New("yaml: " + strings.Join(messages, ", "))
	}
	if message, ok := strings.CutPrefix(err.Error(), "yaml: "); ok {
		return errors.New("yaml: " + shiftLine(message, by))
	}
	return err
}

// lineAt returns an index's line in a text, "" for a negative index.
func lineAt(text []byte, index int) string {
	if index < 0 {
		return ""
	}
	return fmt.Sprintf("line %d: ", 1+bytes.Count(text[:index], []byte("\n")))
}

package env

import "strings"

// Expand replaces references to variables in s. $(NAME) becomes the value that lookup returns for NAME, and stays
// unchanged if lookup has none; $$ becomes $, so $$(NAME) becomes the text $(NAME). A $ before any other character,
// and a $( without an end, stay unchanged. Values are not expanded again. A nil lookup has no variable.
//
// The result has at most limit bytes. If it would be longer, Expand returns "" and false, without building more than
// limit bytes.
func Expand(s string, limit int, lookup func(name string) (value string, ok bool)) (expanded string, ok bool) {
	dollar := strings.IndexByte(s, '$')
	if dollar < 0 && len(s) <= limit {
		return s, true
	}
	var out strings.Builder
	last := strings.LastIndexByte(s, ')')
	for ; dollar >= 0; dollar = strings.IndexByte(s, '$') {
		text, length := reference(s[dollar:], last-dollar, lookup)
		if out.Len()+dollar+len(text) > limit {
			return "", false
		}
		out.WriteString(s[:dollar])
		out.WriteString(text)
		s, last = s[dollar+length:], last-dollar-length
	}
	if out.Len()+len(s) > limit {
		return "", false
	}
	out.WriteString(s)
	return out.String(), true
}

// reference parses the reference that begins with the $ with which s starts. It returns its replacement and its
// length. last is the index for the last ) in s, negative if there is none; it avoids a search for each reference
// without an end.
func reference(s string, last int, lookup func(string) (string, bool)) (text string, length int) {
	switch {
	case strings.HasPrefix(s, "$$"):
		return "$", len("$$")
	case !strings.HasPrefix(s, "$("):
		return "$", len("$")
	case last < 0:
		return "$(", len("$(")
	}
	end := strings.IndexByte(s, ')')
	if lookup != nil {
		if value, ok := lookup(s[len("$("):end]); ok {
			return value, end + 1
		}
	}
	return s[:end+1], end + 1
}

// Lookup returns a function that returns a variable's value in vars, for [Expand]. If a name occurs more than
// once, its last value counts.
func Lookup[V ~struct{ Name, Value string }](vars []V) func(name string) (value string, ok bool) {
	values := make(map[string]string, len(vars))
	for _, v := range vars {
		pair := struct{ Name, Value string }(v)
		values[pair.Name] = pair.Value
	}
	return func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
}

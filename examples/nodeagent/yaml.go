package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
)

// printYAML prints a value as YAML: what its JSON has, with the keys of each object sorted.
func printYAML(to io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return err
	}
	var b bytes.Buffer
	out := bufio.NewWriter(&b)
	writeYAML(out, tree, "", false)
	if err := out.Flush(); err != nil {
		return err
	}
	return printEscaped(to, &b)
}

// plainYAML matches strings that need no quotes: no reader takes them for a number, a date, a boolean or null.
var plainYAML = regexp.MustCompile(`^[A-Za-z][A-Za-z_./-]*[A-Za-z]$`)

// notPlain are words with another meaning in YAML 1.1.
var notPlain = []string{"true", "True", "TRUE", "false", "False", "FALSE", "yes", "Yes", "YES", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF", "null", "Null", "NULL"}

// writeYAML writes a value whose first line begins at the current place, or on a new line if it follows a key.
func writeYAML(out *bufio.Writer, value any, indent string, afterKey bool) {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			break
		}
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 || afterKey {
				out.WriteString("\n" + indent)
			}
			out.WriteString(scalarYAML(key) + ":")
			writeYAML(out, v[key], indent+"  ", true)
		}
		endYAML(out, indent)
		return
	case []any:
		if len(v) == 0 {
			break
		}
		for i, item := range v {
			if i > 0 || afterKey {
				out.WriteString("\n" + indent)
			}
			out.WriteString("- ")
			writeYAML(out, item, indent+"  ", false)
		}
		endYAML(out, indent)
		return
	}
	if afterKey {
		out.WriteByte(' ')
	}
	out.WriteString(scalarYAML(value))
	endYAML(out, indent)
}

// endYAML ends the whole value's text.
func endYAML(out *bufio.Writer, indent string) {
	if indent == "" {
		out.WriteByte('\n')
	}
}

// scalarYAML returns a string, a number, a boolean, null, or an empty list or object. JSON's quotes are valid in YAML.
func scalarYAML(value any) string {
	if s, ok := value.(string); ok && plainYAML.MatchString(s) && !slices.Contains(notPlain, s) {
		return s
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	return string(bytes.TrimSpace(b.Bytes()))
}

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/podsync/podsync/runtime/foreign"
)

// printEscaped copies a text to a terminal. Characters that a terminal obeys, or that change a text's direction,
// become \u and four hexadecimal digits. A JSON text keeps its value, because it has such characters only in strings.
func printEscaped(to io.Writer, from io.Reader) error {
	in, out := bufio.NewReader(from), bufio.NewWriter(to)
	for {
		c, _, err := in.ReadRune()
		switch high, low := utf16.EncodeRune(c); {
		case errors.Is(err, io.EOF):
			return out.Flush()
		case err != nil:
			return errors.Join(err, out.Flush())
		case c == '\n', c == '\t', strconv.IsGraphic(c):
			_, err = out.WriteRune(c)
		case c > 0xffff:
			_, err = fmt.Fprintf(out, `\u%04x\u%04x`, high, low)
		default:
			_, err = fmt.Fprintf(out, `\u%04x`, c)
		}
		if err != nil {
			return err
		}
	}
}

// printJSON prints a value in lines that begin with indent for each level, in one line if indent is empty.
func printJSON(to io.Writer, value any, indent string) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	return printEscaped(to, &b)
}

// refusal is the error for an agent answer, which may repeat what a runtime or a container says.
func refusal(text string) error { return errors.New(foreign.Line(strings.TrimSpace(text))) }

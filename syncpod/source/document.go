package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podsync/podsync/internal/utf"
)

// documents returns the documents in a YAML stream except empty ones, counting the lines before each. JSON is a
// stream with one document.
func documents(text []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		start, at := 0, 0
		before, lines := 0, 0 // start, and at
		for line := range bytes.Lines(text) {
			if at > start && separates(line) {
				if !isEmpty(text[start:at]) && !yield(before, text[start:at]) {
					return
				}
				start, before = at, lines
			}
			at += len(line)
			lines++
			if bytes.HasPrefix(line, []byte(end)) && separates(line) {
				start, before = at, lines // the parser accepts it only at the end
			}
		}
		if !isEmpty(text[start:]) {
			yield(before, text[start:])
		}
	}
}

// The markers at the beginning and at a document's end.
const (
	begin = "---"
	end   = "..."
)

func isEmpty(document []byte) bool {
	return len(bytes.TrimSpace(bytes.TrimPrefix(document, []byte(begin)))) == 0
}

// separates reports whether a line begins or ends a document. In YAML such a line does so anywhere, even in a text
// block.
func separates(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte(begin))
	if !ok {
		rest, ok = bytes.CutPrefix(line, []byte(end))
	}
	return ok && (len(rest) == 0 || strings.ContainsRune(" \t\r\n", rune(rest[0])))
}

// YAMLToJSON converts a YAML document to JSON, with limits on size, depth and the values that aliases repeat. The warning
// names the duplicate keys in mappings; the last value applies. Neither the warning nor the error contains values from the
// document. A JSON document is returned unchanged. Both may be in UTF-16 or UTF-32.
func YAMLToJSON(document []byte) (text []byte, warning, err error) {
	if document, err = utf.Decode(document); err != nil {
		return nil, nil, err
	}
	return toJSON(document, 0)
}

// toJSON numbers the lines in warnings and errors from the file's beginning; before counts the
// lines before the document.
func toJSON(document []byte, before int) (text []byte, warning, err error) {
	if json.Valid(document) {
		return document, nil, nil // unchanged: YAML supports fewer escapes, and no tabs
	}
	if len(document) > maxYAML {
		return nil, nil, fmt.Errorf("yaml: the document has %d bytes, and %d is the most", len(document), maxYAML)
	}
	tree, warning, err := parse(document, true)
	if err != nil && before > 0 { // on its first line the parser does not always name the line
		document = slices.Concat([]byte("\n"), document)
		_, _, err = parse(document, true)
		return nil, nil, shift(withoutValues(err, document), before-1)
	}
	if warning != nil {
		warning = shift(withoutValues(warning, document), before)
		tree, _, err = parse(document, false)
	}
	if err != nil {
		return nil, nil, withoutValues(err, document)
	}
	text, err = json.Marshal(tree)
	return text, warning, err
}

// parse parses one YAML document. If strict is set, the warning names duplicate keys in mappings, and the first value
// applies.
func parse(document []byte, strict bool) (tree any, warning, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(document))
	decoder.SetStrict(strict)
	var root yamlNode
	if err := decoder.Decode(&root); err == io.EOF {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, err
	}
	t := newYAMLTree(document)
	if tree, err = t.value(nil, root, 0); err != nil {
		return nil, nil, err
	}
	for {
		var more yamlNode
		switch err := decoder.Decode(&more); {
		case err == io.EOF:
			return tree, t.warning(root), nil
		case err != nil:
			return nil, nil, err
		case more.decode != nil: // empty documents may follow
			return nil, nil, errors.New("yaml: there is more after the end of the document")
		}
	}
}

func orDocument(path *field.Path) string {
	if path == nil {
		return "the document"
	}
	return path.String()
}

// textOf returns a key as text. A key such as 8080 or true may have no quotes, and YAML parses it as a number or a
// bool.
func textOf(key any) (text string, ok bool) {
	switch key.(type) {
	case string, int, int64, uint64, float64, bool:
		return fmt.Sprint(key), true
	}
	return "", false
}

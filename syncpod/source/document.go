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
)

// documents are those of a YAML stream but for empty ones, with the number of lines
// before each. JSON is a stream of one.
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
				start, before = at, lines // the parser takes it at the end only
			}
		}
		if !isEmpty(text[start:]) {
			yield(before, text[start:])
		}
	}
}

// What a document begins and ends with.
const (
	begin = "---"
	end   = "..."
)

func isEmpty(document []byte) bool {
	return len(bytes.TrimSpace(bytes.TrimPrefix(document, []byte(begin)))) == 0
}

// separates reports whether a document begins or ends with a line. In YAML such a
// line does so wherever it stands, in a block of text too.
func separates(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte(begin))
	if !ok {
		rest, ok = bytes.CutPrefix(line, []byte(end))
	}
	return ok && (len(rest) == 0 || strings.ContainsRune(" \t\r\n", rune(rest[0])))
}

// toJSON returns a document as JSON, and as a warning what was wrong with it. Both the
// warning and the error count the lines from the beginning of the file, of which before
// are not of the document.
func toJSON(document []byte, before int) (text []byte, warning, err error) {
	if json.Valid(document) {
		return document, nil, nil // as it is: YAML knows fewer escapes, and no tabs
	}
	tree, warning := parse(document, true)
	if warning != nil && before > 0 {
		document = slices.Concat(bytes.Repeat([]byte("\n"), before), document)
		tree, warning = parse(document, true)
	}
	if warning != nil {
		if tree, err = parse(document, false); err != nil {
			return nil, nil, err
		}
	}
	if tree, err = jsonable(nil, tree); err == nil {
		text, err = json.Marshal(tree)
	}
	return text, warning, err
}

// parse parses one document of YAML. Strictly, no mapping has a key twice.
func parse(document []byte, strict bool) (tree any, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(document))
	decoder.SetStrict(strict)
	if err := decoder.Decode(&tree); err == io.EOF {
		return nil, nil
	} else if err != nil {
		return nil, withoutValues(err, document)
	}
	var more any
	if err := decoder.Decode(&more); err == nil {
		return nil, errors.New("yaml: there is more after the end of the document")
	} else if err != io.EOF {
		return nil, withoutValues(err, document)
	}
	return tree, nil
}

// jsonable returns a tree of YAML as one of JSON, which has no keys but texts.
func jsonable(path *field.Path, tree any) (any, error) {
	switch t := tree.(type) {
	case map[any]any:
		object := make(map[string]any, len(t))
		for k, v := range t {
			key, ok := textOf(k)
			if _, taken := object[key]; taken || !ok {
				return nil, fmt.Errorf("%s: a key is neither a text nor a number, or is written in two ways", orDocument(path))
			}
			var err error
			if object[key], err = jsonable(path.Child(key), v); err != nil {
				return nil, err
			}
		}
		return object, nil
	case []any:
		for i := range t {
			var err error
			if t[i], err = jsonable(path.Index(i), t[i]); err != nil {
				return nil, err
			}
		}
	}
	return tree, nil
}

func orDocument(path *field.Path) string {
	if path == nil {
		return "the document"
	}
	return path.String()
}

// textOf returns a key as text: 8080 and true are written without quotes at times.
func textOf(key any) (text string, ok bool) {
	switch key.(type) {
	case string, int, int64, uint64, float64, bool:
		return fmt.Sprint(key), true
	}
	return "", false
}

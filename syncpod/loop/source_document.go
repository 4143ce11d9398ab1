package loop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"go.yaml.in/yaml/v2"
)

// documents are those of a YAML stream but for empty ones. JSON is a stream of
// one.
func documents(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		start, at := 0, 0
		for line := range bytes.Lines(text) {
			if at > start && separates(line) {
				if !isEmpty(text[start:at]) && !yield(text[start:at]) {
					return
				}
				start = at
			}
			if bytes.HasPrefix(line, []byte(end)) && separates(line) {
				start += len(line) // the parser takes it at the end only
			}
			at += len(line)
		}
		if !isEmpty(text[start:]) {
			yield(text[start:])
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

// toJSON returns a document as JSON, and as a warning what was wrong with it.
func toJSON(document []byte) (text []byte, warning, err error) {
	if json.Valid(document) {
		return document, nil, nil // as it is: YAML knows fewer escapes, and no tabs
	}
	tree, warning := parse(document, true)
	if warning != nil {
		if tree, err = parse(document, false); err != nil {
			return nil, nil, err
		}
	}
	if tree, err = jsonable(tree); err == nil {
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
		return nil, withoutValues(err)
	}
	var more any
	if err := decoder.Decode(&more); err == nil {
		return nil, errors.New("yaml: there is more after the end of the document")
	} else if err != io.EOF {
		return nil, withoutValues(err)
	}
	return tree, nil
}

// quoting are the errors of the YAML parser that quote values of the file. It
// may hold secrets, so the part up to there has to do.
var quoting = []string{"yaml: unknown anchor", "yaml: anchor", "yaml: cannot decode", "yaml: invalid map key"}

func withoutValues(err error) error {
	for _, prefix := range quoting {
		if strings.HasPrefix(err.Error(), prefix) {
			return errors.New(prefix)
		}
	}
	var duplicates *yaml.TypeError
	if errors.As(err, &duplicates) {
		return errors.New("yaml: " + strings.Join(duplicates.Errors, ", "))
	}
	return err
}

// jsonable returns a tree of YAML as one of JSON, which has no keys but texts.
func jsonable(tree any) (any, error) {
	switch t := tree.(type) {
	case map[any]any:
		object := make(map[string]any, len(t))
		for k, v := range t {
			key, ok := textOf(k)
			if _, taken := object[key]; taken || !ok {
				return nil, errors.New("yaml: a key is neither a text nor a number, or is written in two ways")
			}
			var err error
			if object[key], err = jsonable(v); err != nil {
				return nil, err
			}
		}
		return object, nil
	case []any:
		for i := range t {
			var err error
			if t[i], err = jsonable(t[i]); err != nil {
				return nil, err
			}
		}
	}
	return tree, nil
}

// textOf returns a key as text: 8080 and true are written without quotes at times.
func textOf(key any) (text string, ok bool) {
	switch key.(type) {
	case string, int, int64, uint64, float64, bool:
		return fmt.Sprint(key), true
	}
	return "", false
}

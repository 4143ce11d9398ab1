package source

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits for one YAML document. The parser needs about a hundred times as much memory as
// the document has bytes, and aliases repeat values as often as they like.
const (
	// maxYAML exceeds an API server's limit for one object: 1.5 MiB.
	maxYAML = 2 << 20
	// maxDepth is several times as deep as a pod with all its fields.
	maxDepth = 100
	// A document without aliases has at most one value for each two bytes, and no more text than bytes. The added
	// numbers allow for the values that aliases repeat in a small document.
	moreValues, maxValues = 10_000, 250_000
	moreText              = 256 << 10
	// maxDuplicates limits the duplicate keys in a warning.
	maxDuplicates = 20
)

// A yamlNode is a value that the parser has read and not yet decoded. Decoding one level at a
// time allows the walk to stop before a document's aliases fill the memory.
type yamlNode struct{ decode func(any) error }

// UnmarshalYAML keeps the node. The parser does not call it for null.
func (n *yamlNode) UnmarshalYAML(decode func(any) error) error {
	n.decode = decode
	return nil
}

// A yamlKey is a mapping's key, which is a scalar. The key null has no value.
type yamlKey struct{ value any }

// UnmarshalYAML refuses a key that is not a scalar before its content is decoded.
func (k *yamlKey) UnmarshalYAML(decode func(any) error) error {
	text := unset
	err := decode(&text)
	if _, mismatch := errors.AsType[*yaml.TypeError](err); mismatch || text == unset {
		return errors.New("yaml: invalid map key")
	}
	return cmp.Or(err, decode(&k.value))
}

// GoString returns the form in which the parser quotes a duplicate key.
func (k yamlKey) GoString() string { return fmt.Sprintf("%#v", k.value) }

// isScalar reports whether a node is neither a mapping nor a sequence.
func (t *yamlTree) isScalar(n yamlNode) (bool, error) {
	text := unset
	err := n.decode(&text)
	if mismatch, ok := errors.AsType[*yaml.TypeError](err); ok {
		t.note(mismatch)
		err = nil
	}
	return text != unset, err
}

// unset cannot occur in a document, except on purpose.
const unset = "\x00unset"

// A yamlTree turns one document's nodes into JSON values, within limits.
type yamlTree struct {
	document     []byte
	values, text int // the remaining values and text
	duplicates   []string
}

func newYAMLTree(document []byte) *yamlTree {
	return &yamlTree{document: document, values: min(len(document)/2+moreValues, maxValues), text: 2*len(document) + moreText}
}

// value returns a node with everything below it.
func (t *yamlTree) value(path *field.Path, n yamlNode, depth int) (any, error) {
	if t.values--; t.values < 0 {
		return nil, fmt.Errorf("yaml: it has more than %d values, aliases (*) replaced", min(len(t.document)/2+moreValues, maxValues))
	}
	if n.decode == nil {
		return nil, nil
	}
	scalar, err := t.isScalar(n)
	switch {
	case err != nil:
		return nil, err
	case scalar:
		return t.scalar(n)
	case depth == maxDepth:
		return nil, t.tooDeep()
	}
	var fields map[yamlKey]yamlNode
	if err := t.decode(n, &fields); err != nil {
		return nil, err
	}
	if fields != nil {
		return t.object(path, fields, depth+1)
	}
	var items []yamlNode
	if err := t.decode(n, &items); err != nil {
		return nil, err
	}
	return t.list(path, items, depth+1)
}

// decode decodes one level in a node, and records duplicate keys. If the node has another type, out
// is unchanged.
func (t *yamlTree) decode(n yamlNode, out any) error {
	err := n.decode(out)
	mismatch, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return err
	}
	t.note(mismatch)
	return nil
}

// note records duplicate keys. The parser may report them late, together with another error.
func (t *yamlTree) note(mismatch *yaml.TypeError) {
	for _, message := range mismatch.Errors {
		if strings.HasSuffix(message, " already set in map") {
			t.duplicates = append(t.duplicates, message)
		}
	}
}

// warning returns the duplicate keys ordered by their lines, nil for none.
func (t *yamlTree) warning(root yamlNode) error {
	if len(t.duplicates) == 0 {
		return nil
	}
	var never chan struct{} // no value has this type, so the parser returns the rest
	if late, ok := errors.AsType[*yaml.TypeError](root.decode(&never)); ok {
		t.note(late)
	}
	all := t.duplicates
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	all = slices.Compact(all)
	if more := len(all) - maxDuplicates; more > 0 {
		all = append(all[:maxDuplicates:maxDuplicates], fmt.Sprintf("and %d more", more))
	}
	return &yaml.TypeError{Errors: all}
}

func (t *yamlTree) scalar(n yamlNode) (any, error) {
	var value any
	if err := n.decode(&value); err != nil {
		return nil, err
	}
	if text, ok := value.(string); ok {
		return value, t.spend(text)
	}
	return value, nil
}

func (t *yamlTree) spend(text string) error {
	if t.text -= len(text); t.text < 0 {
		return fmt.Errorf("yaml: it has more than %d bytes of text, aliases (*) replaced", 2*len(t.document)+moreText)
	}
	return nil
}

// object returns a mapping. JSON has no keys but texts.
func (t *yamlTree) object(path *field.Path, fields map[yamlKey]yamlNode, depth int) (any, error) {
	object := make(map[string]any, len(fields))
	for k, n := range fields {
		name, ok := textOf(k.value)
		if _, taken := object[name]; taken || !ok {
			return nil, fmt.Errorf("%s: a key is neither a text nor a number, or is written in two ways", orDocument(path))
		}
		if err := t.spend(name); err != nil {
			return nil, err
		}
		value, err := t.value(path.Child(name), n, depth)
		if err != nil {
			return nil, err
		}
		object[name] = value
	}
	return object, nil
}

func (t *yamlTree) list(path *field.Path, items []yamlNode, depth int) (any, error) {
	list := make([]any, len(items))
	for i, n := range items {
		var err error
		if list[i], err = t.value(path.Index(i), n, depth); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// tooDeep returns an error if a document is nested without end, because an anchor contains itself. The parser finds
// out where.
func (t *yamlTree) tooDeep() error {
	if err := yaml.Unmarshal(t.document, &unkept{}); err != nil {
		return err
	}
	return fmt.Errorf("yaml: values are nested more than %d deep", maxDepth)
}

// unkept accepts any value and keeps nothing.
type unkept struct{}

// UnmarshalYAML makes the parser visit the values below, so that it finds cycles.
func (u *unkept) UnmarshalYAML(decode func(any) error) error {
	var mismatch *yaml.TypeError
	err := decode(&map[yamlKey]unkept{})
	if errors.As(err, &mismatch) {
		err = decode(&[]unkept{})
	}
	if errors.As(err, &mismatch) {
		return nil
	}
	return err
}

// lineOf returns the line number that a parser message begins with, 0 for none.
func lineOf(message string) int {
	text, _, _ := strings.Cut(strings.TrimPrefix(message, "line "), ":")
	line, err := strconv.Atoi(text)
	if err != nil || !strings.HasPrefix(message, "line ") {
		return 0
	}
	return line
}

// shiftLine adds to the line number that a parser message begins with.
func shiftLine(message string, by int) string {
	line := lineOf(message)
	if line == 0 {
		return message
	}
	return fmt.Sprintf("line %d%s", line+by, strings.TrimPrefix(message, "line "+strconv.Itoa(line)))
}

package source

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/podsync/podsync/internal/quantities"
)

// misfits finds the JSON fields that do not fit an API type. The decoder stops at the first one, and does not always
// name it.
type misfits struct {
	// values means that errors may contain values: none is secret.
	values bool
	errs   field.ErrorList
}

// findMisfits returns the fields that do not fit the type, and the JSON without them.
func findMisfits(raw []byte, t reflect.Type, values bool) (fits []byte, errs field.ErrorList) {
	tree, err := parseJSON(raw)
	if err != nil {
		return nil, nil
	}
	m := misfits{values: values}
	tree = m.walk(nil, t, tree)
	fits, err = appendJSON(nil, tree)
	if err != nil {
		return nil, m.errs
	}
	return fits, m.errs
}

// decodesItself reports whether a type has its own form in JSON.
func decodesItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) || t == reflect.TypeFor[[]byte]()
}

// walk returns what fits in a value, nil for none.
func (m *misfits) walk(at *field.Path, t reflect.Type, value any) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case value == nil || t.Kind() == reflect.Interface:
		return value
	case decodesItself(t):
		return m.leaf(at, t, value)
	}
	switch v := value.(type) {
	case jsonObject:
		if t.Kind() == reflect.Struct || t.Kind() == reflect.Map {
			slices.SortStableFunc(v, func(a, b jsonMember) int { return cmp.Compare(a.key, b.key) })
			for i := range v {
				v[i].value = m.member(at, t, v[i].key, v[i].value)
			}
			return v
		}
	case []any:
		if t.Kind() == reflect.Slice {
			for i := range v {
				v[i] = m.walk(at.Index(i), t.Elem(), v[i])
			}
			return v
		}
	}
	return m.leaf(at, t, value)
}

// member returns what fits in an object's member. An unknown member fits.
func (m *misfits) member(at *field.Path, t reflect.Type, key string, value any) any {
	if t.Kind() == reflect.Map {
		return m.walk(at.Key(key), t.Elem(), value)
	}
	if known := fieldOf(t, key); known != nil {
		return m.walk(at.Child(key), known, value)
	}
	return value
}

// fieldOf returns the type for a struct's field with that name in JSON, nil if there is
// none.
func fieldOf(t reflect.Type, name string) reflect.Type {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name && tag != "" {
			return f.Type
		}
		if f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct {
			if known := fieldOf(f.Type, name); known != nil {
				return known
			}
		}
	}
	return nil
}

// leaf decodes a value as the decoder would.
func (m *misfits) leaf(at *field.Path, t reflect.Type, value any) any {
	raw, err := appendJSON(nil, value)
	quantity := t == reflect.TypeFor[resource.Quantity]()
	if err == nil && quantity {
		err = quantities.Check(strings.Trim(string(raw), `"`))
	}
	if err == nil {
		if err = kjson.UnmarshalCaseSensitivePreserveInts(raw, reflect.New(t).Interface()); err != nil && quantity {
			err = quantities.ErrFormat
		}
	}
	switch {
	case err == nil:
		return value
	case len(m.errs) == maxProblems:
		return nil
	}
	problem := field.Invalid(at, field.OmitValueType{}, "")
	if want := wanted(t); want != "" {
		problem.Detail = fmt.Sprintf("it must be %s, and is %s", want, kindOf(value))
		if want == aText && isScalar(value) {
			problem.Detail += ": quote the value if it is meant as text"
		}
	} else if problem.Detail = err.Error(); m.values && isScalar(value) {
		problem.BadValue = value
	}
	if at == nil {
		problem.Field = "the object"
	}
	m.errs = append(m.errs, problem)
	return nil
}

const aText = "a text"

// wanted returns a type's name, empty for a type that decodes itself.
func wanted(t reflect.Type) string {
	switch {
	case decodesItself(t):
		return ""
	case t.Kind() == reflect.String:
		return aText
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Map, t.Kind() == reflect.Struct:
		return "an object"
	}
	return fmt.Sprintf("a number of type %s", t.Kind())
}

// isScalar reports whether a value is a scalar, which the author may have meant as a string.
func isScalar(value any) bool {
	_, isObject := value.(jsonObject)
	_, isList := value.([]any)
	return !isObject && !isList
}

// kindOf returns a JSON value's kind in words.
func kindOf(value any) string {
	switch value.(type) {
	case string:
		return aText
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case jsonObject:
		return "an object"
	}
	return "a number"
}

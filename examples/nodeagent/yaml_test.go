package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestYAML(t *testing.T) {
	value := map[string]any{"kind": "PodList", "no": "yes", "items": []any{map[string]any{"a": 1, "b": []any{}}, []any{"x", nil}}, "text": "1e3\n\u202e"}
	const want = "items:\n  - \"a\": 1\n    \"b\": []\n  - - \"x\"\n    - null\nkind: PodList\n\"no\": \"yes\"\ntext: \"1e3\\n\\u202e\"\n"
	var out bytes.Buffer
	if err := printYAML(&out, value); err != nil || out.String() != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, &out, want)
	}
}

// A reader of YAML gets the value that was written.
func TestYAMLIsReadBack(t *testing.T) {
	words := []string{"", "a", "no", "NULL", "~", "1", "0x1", "1_000", "2001-01-01", ".inf", "a: b", "- a", "#x", "a #b", "'", "\"", "a\nb", "é", "\u2028", "\x7f", "<<", "=", "y", "app.kubernetes.io/name", "12:30:00", " a", "*a", "&a", "!a", "%", "@", "{", "a,b"}
	r := rand.New(rand.NewPCG(1, 1))
	var random func(depth int) any
	random = func(depth int) any {
		switch n := r.IntN(6); {
		case n == 0 && depth > 0:
			list := []any{}
			for range r.IntN(3) {
				list = append(list, random(depth-1))
			}
			return list
		case n < 3 && depth > 0:
			object := map[string]any{}
			for range r.IntN(4) {
				object[words[r.IntN(len(words))]] = random(depth - 1)
			}
			return object
		case n == 3:
			return []any{nil, true, false, 1.5, 12.0}[r.IntN(5)]
		}
		return words[r.IntN(len(words))]
	}
	for range 2000 {
		value := random(4)
		var out bytes.Buffer
		if err := printYAML(&out, value); err != nil {
			t.Fatal(err)
		}
		text, err := yaml.YAMLToJSON(out.Bytes())
		var got any
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil || !reflect.DeepEqual(got, value) {
			t.Fatalf("%v\n%#v was read as\n%#v from\n%s", err, value, got, &out)
		}
	}
}

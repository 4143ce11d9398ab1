package spdy

import (
	"bytes"
	"maps"
	"net/http"
	"testing"
)

// FuzzHeader: consecutive headers are read as they were written, whatever they contain. Headers with fields that are too
// long are rejected.
func FuzzHeader(f *testing.F) {
	f.Add("streamtype", "data", "port", "80")
	f.Add("", "", "", "\x00")
	f.Add("Stream-Type", "a\x00b", "stream-type", "c\x00\x00")
	f.Fuzz(func(t *testing.T, name, value, other, more string) {
		var r headerReader
		for i, header := range []map[string]string{{name: value}, {other: more, name: value}, {}} {
			want, long := http.Header{}, false
			for n, v := range header {
				long = long || len(n) > maxField || len(v) > maxField
			}
			for n, v := range header {
				for one := range bytes.SplitSeq([]byte(v), []byte{0}) {
					want.Add(n, string(one))
				}
			}
			if len(header) > 1 && http.CanonicalHeaderKey(name) == http.CanonicalHeaderKey(other) {
				return // the values are in the order of the names
			}
			block := appendHeader(nil, header, i == 0)
			if len(block) > 1<<16 {
				return // it does not fit into a block that is not compressed
			}
			got, err := r.read(block)
			if long {
				if err == nil {
					t.Errorf("a field of more than %d bytes is read", maxField)
				}
				return
			}
			if err != nil || !maps.EqualFunc(got, want, func(a, b []string) bool { return len(a) == len(b) && (len(a) == 0 || bytes.Equal(join(a), join(b))) }) {
				t.Fatalf("%q is read as %q, %v", header, got, err)
			}
		}
	})
}

func join(values []string) (text []byte) {
	for _, v := range values {
		text = append(append(text, v...), 0)
	}
	return text
}

package source

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// bomb is a document of nested aliases: each level repeats the one before so many times.
func bomb(levels, width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "a0: &a0 [%s]\n", strings.Repeat("x,", width))
	for i := 1; i < levels; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), width))
	}
	return b.String()
}

// TestQuantitiesAlone checks that texts in other fields may look like quantities.
func TestQuantitiesAlone(t *testing.T) {
	m := testFolder(t).decode("/f", []byte("{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {a: 1e-266666600x}}, spec: {containers: [{name: a, image: \"e266666600\"}]}}"))
	if len(m.errors) > 0 || len(m.objects) != 1 {
		t.Errorf("%v, %d objects", m.errors, len(m.objects))
	}
}

// allocated returns how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// For any file, the memory for reading it is proportional to its size, and an error states why it was not
// read completely.
func TestHostileManifestsTakeBoundedMemory(t *testing.T) {
	const mib = 1 << 20
	flat := "a: &a {k: v, l: w}\nb: [" + strings.Repeat("*a,", 18_000) + "]\n"
	for name, tc := range map[string]struct {
		text  string
		want  string
		bytes uint64
	}{
		"aliases of aliases": {bomb(9, 9), "yaml: it has more than 10202 values, aliases (*) replaced", 20 * mib},
		"55 kB of aliases":   {flat, "yaml: it has more than 37012 values, aliases (*) replaced", 60 * mib},
		"a long text, often": {
			"a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a,", 1000) + "]\n", "yaml: it has more than 468170 bytes of text, aliases (*) replaced", 20 * mib,
		},
		"an alias as a key":       {bomb(8, 9) + "? *a7\n: x\n", "a key is neither a text nor a number", 20 * mib},
		"merged maps":             {"a: &a {k: v}\nb: &b {<<: [" + strings.Repeat("*a,", 1000) + "]}\nc: {<<: [" + strings.Repeat("*b,", 1000) + "]}\n", "excessive aliasing", 150 * mib},
		"an endless anchor":       {"a: &a [*a, *a, *a, *a]\n", "an anchor (&) has an alias (*) of itself in its value", 20 * mib},
		"deeply nested":           {strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "#", "yaml: values are nested more than 100 deep", 60 * mib},
		"equal keys":              {strings.Repeat("a: b\n", 20_000), "and 19979 more", 60 * mib},
		"as many values as bytes": {"[" + strings.Repeat("a,", 1_000_000) + "]", "yaml: it has more than 250000 values", 500 * mib},
		"a huge document":         {"a: " + strings.Repeat("x", maxYAML) + "\n", "yaml: the document has 2097156 bytes, and 2097152 is the most", 20 * mib},
		"many documents":          {strings.Repeat("---\nkind: Pod\n", 100_000), "the file has more than 100 errors: the rest is not read", 20 * mib},
		"documents of others":     {strings.Repeat("---\n{kind: Secret, apiVersion: v1, metadata: {name: a}}\n", 1001), "the file has more than 1000 documents: the rest is not read", 80 * mib},
		"equal keys, often":       {strings.Repeat("---\na: b\na: c\n", 700_000), "the file has more than 100 errors: the rest is not read", 40 * mib},
		"items of nothing":        {`{"apiVersion": "v1", "kind": "List", "items": [` + strings.Repeat("0,", 4<<20) + "0]}", "the file has more than 100 errors: the rest is not read", 100 * mib},
		"items that are not":      {`{"apiVersion": "v1", "kind": "List", "items": {"a": 1}}`, "items: Invalid value: it must be a list", 20 * mib},
		"endless quantities": {
			"{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: a, resources: {limits: {memory: \"1e-266666600\", cpu: \"E266666600\"}}}], volumes: [{name: v, emptyDir: {sizeLimit: \"1E+100\"}}]}}",
			"spec.containers[0].resources.limits[cpu]: Invalid value: \"E266666600\": the exponent of a quantity has at most 2 digits", 20 * mib,
		},
		"an endless quantity before another": {
			podJSON(`{"limits":{"cpu":"1e-266666600","cpu":"1"}}`, ""),
			"spec.containers[0].resources.limits[cpu]: Invalid value: \"1e-266666600\": the exponent of a quantity has at most 2 digits", 20 * mib,
		},
		"an endless quantity in a field that comes again": {
			podJSON(`{"limits":{"cpu":"1e-266666600"}}`, `,"resources":{"limits":{"cpu":"1"}}`),
			"spec.containers[0].resources.limits[cpu]: Invalid value: \"1e-266666600\": the exponent of a quantity has at most 2 digits", 20 * mib,
		},
		"many endless quantities of one name": {
			podJSON(`{"limits":{`+strings.Repeat(`"cpu":"1e-266666600",`, 100_000)+`"cpu":"1"}}`, ""),
			"spec.containers[0].resources.limits[cpu]: Invalid value: \"1e-266666600\": the exponent of a quantity has at most 2 digits", 100 * mib,
		},
		"deeply nested JSON beside a quantity": {
			podJSON(`{"limits":{"cpu":"1e-266666600"}}`, `,"a":`+strings.Repeat("[", 9000)+strings.Repeat("0,", 100_000)+"0"+strings.Repeat("]", 9000)),
			"spec.containers[0].resources.limits[cpu]: Invalid value: \"1e-266666600\": the exponent of a quantity has at most 2 digits", 60 * mib,
		},
		"an endless size of huge pages": {
			podJSON(`{"limits":{"hugepages-1e-266666600":"0"}}`, ""),
			"spec.containers[0].resources.limits[hugepages-1e-266666600]: Invalid value: \"hugepages-1e-266666600\": the exponent of a quantity has at most 2 digits", 20 * mib,
		},
		"wrong values": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {" + manyKeys(20_000) + "}}", "it must be a text, and is a number", 150 * mib,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var m manifest
			began := time.Now()
			got := allocated(func() { m = testFolder(t).decode("/f", []byte(tc.text)) })
			t.Logf("%d bytes: %.1f MiB in %v", len(tc.text), float64(got)/mib, time.Since(began))
			if got > tc.bytes {
				t.Errorf("%d bytes allocated, want at most %d", got, tc.bytes)
			}
			said := ""
			for _, err := range append(m.errors, m.warnings...) {
				said += err.Error() + "\n"
			}
			if !strings.Contains(said, tc.want) || !strings.Contains(said, "/f: ") || len(said) > 100_000 {
				t.Errorf("%.1000s, want %q and the file, and no more than 100 kB", said, tc.want)
			}
			if n := len(m.errors) + len(m.warnings); n > 2*maxProblems+2 {
				t.Errorf("%d errors and warnings", n)
			}
		})
	}
}

// podJSON is a pod with one container, with its resources and what follows them.
func podJSON(resources, more string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a","resources":` + resources + more + `}]}}`
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1,", i)
	}
	return b.String()
}

// Anchors, aliases and merges of honest manifests are replaced.
func TestAliasesAreReplaced(t *testing.T) {
	text, warning, err := YAMLToJSON([]byte("a: &a {b: [1, 0x10, 1.5, yes, ~, 'no', 2001-01-01]}\nc: {<<: *a, d: *a}\n8080: &n null\ntrue: *n\ne: |\n  *a\n"))
	if err != nil || warning != nil {
		t.Fatal(warning, err)
	}
	const list = `{"b":[1,16,1.5,true,null,"no","2001-01-01"]`
	if want := `{"8080":null,"a":` + list + `},"c":` + list + `,"d":` + list + `}},"e":"*a\n","true":null}`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
}

// The last of equal keys counts, wherever it is, and each is reported with its line.
func TestEqualKeysAreReported(t *testing.T) {
	text, warning, err := YAMLToJSON([]byte("a: 1\na: 2\nb:\n  c: {x: 1}\n  c: {d: 1, d: 2, d: 3}\ne: [{f: 1, f: 2}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `yaml: line 2: key "a" already set in map, line 5: key "c" already set in map, line 6: key "f" already set in map`
	if warning == nil || warning.Error() != want {
		t.Errorf("%v, want %s", warning, want)
	}
	if want := `{"a":2,"b":{"c":{"d":3}},"e":[{"f":2}]}`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
}

// A document that is read is JSON, with no more than the limits allow.
func FuzzYAMLToJSON(f *testing.F) {
	for _, text := range []string{
		podText("a", "i"), bomb(3, 3), "a: &a [*a]", "a: 1\na: 2", "? {a: b}\n: c", "a: &a {b: c}\nd: {<<: *a}", "--- !!map {}\n...\n", "\"\\0unset\": \"\\0unset\"", "[[[[", "a: !!binary aGk=",
		"a: .nan\n.nan: b", "a: !!float x", "~: a", "{a: b", "- &a ~\n- *a",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		text, warning, err := YAMLToJSON(document)
		switch {
		case err != nil && text != nil:
			t.Errorf("%s with %v", text, err)
		case err == nil && !json.Valid(text):
			t.Errorf("%q is %q, want JSON", document, text)
		case len(text) > 12*len(document)+3*moreText+30*moreValues:
			t.Errorf("%d bytes became %d", len(document), len(text))
		case warning != nil && len(warning.Error()) > 100*maxDuplicates+len(document):
			t.Errorf("a warning of %d bytes", len(warning.Error()))
		}
	})
}

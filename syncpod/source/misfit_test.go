package source

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A manifest's errors are reported all at once, with their fields, and with the values unless they are secret.
// Warnings are separate.
func TestManifestErrorsNameFields(t *testing.T) {
	pod := func(spec string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - {name: c, image: i" + spec + "}\n"
	}
	for name, tc := range map[string]struct{ text, want string }{
		"quantities, and an unknown field": {
			pod(", comand: [a], resources: {limits: {memory: 10Q, cpu: 1}, requests: {cpu: 2x}}"),
			`[W /f: document 1: Pod default/a: unknown field "spec.containers[0].comand"] [E /f: document 1: Pod default/a: [` +
				`spec.containers[0].resources.limits[memory]: Invalid value: "10Q": a quantity is a number with or without a unit, such as 2, 500m, 64Mi or 1.5G, ` +
				`spec.containers[0].resources.requests[cpu]: Invalid value: "2x": a quantity is a number with or without a unit, such as 2, 500m, 64Mi or 1.5G]]`,
		},
		"a number where a text is wanted": {
			pod(", env: [{name: A, value: 1234}], args: [true]"),
			"[] [E /f: document 1: Pod default/a: [spec.containers[0].args[0]: Invalid value: it must be a text, and is true or false: quote the value if it is meant as text, " +
				"spec.containers[0].env[0].value: Invalid value: it must be a text, and is a number: quote the value if it is meant as text]]",
		},
		"other types": {
			pod(", stdin: 1, ports: {a: b}, securityContext: [], env: [{name: {a: b}}], terminationMessagePath: [a], imagePullPolicy: a, livenessProbe: {periodSeconds: a}"),
			"[] [E /f: document 1: Pod default/a: [spec.containers[0].env[0].name: Invalid value: it must be a text, and is an object, " +
				"spec.containers[0].livenessProbe.periodSeconds: Invalid value: it must be a number of type int32, and is a text, " +
				"spec.containers[0].ports: Invalid value: it must be a list, and is an object, " +
				"spec.containers[0].securityContext: Invalid value: it must be an object, and is a list, " +
				"spec.containers[0].stdin: Invalid value: it must be true or false, and is a number, " +
				"spec.containers[0].terminationMessagePath: Invalid value: it must be a text, and is a list]]",
		},
		"a name that is no text": {
			strings.Replace(pod(""), "name: a", "name: y", 1),
			"[] [E /f: document 1: metadata.name: Invalid value: it must be a text, and is true or false: quote the value if it is meant as text]",
		},
		"values of a Secret": {
			"{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {a: 's3cret!', b: YQ==}, stringData: {c: 1234}}",
			"[] [E /f: document 1: Secret default/a: [data[a]: Invalid value: illegal base64 data at input byte 6, " +
				"stringData[c]: Invalid value: it must be a text, and is a number: quote the value if it is meant as text]]",
		},
		"a kind of volume that is not known": {
			pod("") + "  volumes:\n  - {name: a, floppyDisk: {drive: A}}\n  - {name: b, emptyDir: {}, medium: Memory}\n  - {name: c}\n",
			`[W /f: document 1: Pod default/a: unknown field "spec.volumes[0].floppyDisk" W /f: document 1: Pod default/a: unknown field "spec.volumes[1].medium"] ` +
				"[E /f: document 1: Pod default/a: spec.volumes[0].floppyDisk: Forbidden: volumes of this kind are not known]",
		},
		"lines are those of the file": {
			pod("") + "---\n" + pod("") + "kind: Pod\n---\n# comment\na: {b\n--- \na: *s3cret\n...\n---\n? {a: b}\n: c\n---\nimage: {{ .Values.image }}\n",
			`[W /f: document 2: yaml: line 14: key "kind" already set in map] [E /f: document 3: yaml: line 17: did not find expected ',' or '}' ` +
				"E /f: document 4: yaml: line 19: an alias (*) is of no anchor (&); a text that begins with * needs quotes " +
				"E /f: document 5: yaml: a key is neither a text nor a number; a text that begins with { needs quotes " +
				"E /f: document 6: yaml: line 25: a key is neither a text nor a number; a text that begins with { needs quotes]",
		},
		"an anchor in itself": {"a: b\nc: &d [*d]\n", "[] [E /f: document 1: yaml: line 2: an anchor (&) has an alias (*) of itself in its value]"},
		"keys in lists":       {"a: [{b: [{~: c}]}]", "[] [E /f: document 1: a[0].b[0]: a key is neither a text nor a number, or is written in two ways]"},
	} {
		t.Run(name, func(t *testing.T) {
			m := testFolder(t).decode("/f", []byte(tc.text))
			text := func(sign string, errs []error) string {
				var words []string
				for _, err := range errs {
					words = append(words, sign+" "+err.Error())
				}
				return "[" + strings.Join(words, " ") + "]"
			}
			if got := text("W", m.warnings) + " " + text("E", m.errors); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			if all := fmt.Sprint(slices.Concat(m.errors, m.warnings)); strings.Contains(all, "s3cret") || strings.Contains(all, "1234") {
				t.Errorf("an error or warning contains a secret: %s", all)
			}
		})
	}
}

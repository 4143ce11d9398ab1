package source

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf16"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/podspec"
)

func testFolder(t testing.TB) *Folder {
	t.Helper()
	return must.Get(NewFolder(FolderConfig{Path: "/etc/pods", NodeName: "n", Name: "edge"}))(t)
}

func TestDecode(t *testing.T) {
	const spec = `"spec":{"containers":[{"name":"c","image":"i"}]}`
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},` + spec + "}"
	for name, tc := range map[string]struct{ text, want string }{
		"YAML":             {podText("a", "i"), "Pod default/a-n"},
		"JSON":             {pod, "Pod default/a-n"},
		"JSON with tabs":   {strings.ReplaceAll(pod, ",", ",\n\t"), "Pod default/a-n"},
		"flow style":       {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", "ConfigMap default/a"},
		"byte order mark":  {"\ufeff" + pod, "Pod default/a-n"},
		"CRLF":             {strings.ReplaceAll(podText("a", "i")+"---\n"+podText("b", "i"), "\n", "\r\n"), "Pod default/a-n, Pod default/b-n"},
		"separators":       {"# first\n---\n" + podText("a", "i") + "...\n--- # last\n" + podText("b", "i") + "---\n", "Pod default/a-n, Pod default/b-n"},
		"a text of dashes": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: |\n    ---\n    b\n", "ConfigMap default/a"},
		"List":             {`{"apiVersion":"v1","kind":"List","items":[` + pod + `,{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"x"}}]}`, "Pod default/a-n, Secret x/s"},
		"PodList":          {`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"},` + spec + `}]}`, "Pod default/a-n"},
		"a namespace":      {strings.Replace(podText("a", "i"), "{name", "{namespace: shop, name", 1), "Pod shop/a-n"},
		"numbers as keys":  {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {80: a, true: b}}", "ConfigMap default/a"},
		"unknown field":    {strings.Replace(pod, `"spec":{`, `"spec":{"restartPolice":"Never",`, 1), `Pod default/a-n, W /f: document 1: Pod default/a: unknown field "spec.restartPolice"`},
		"key twice":        {podText("a", "i") + "kind: Pod\n", `Pod default/a-n, W /f: document 1: yaml: line 7: key "kind" already set in map`},
		"key twice, JSON":  {strings.Replace(pod, `"kind"`, `"apiVersion":"v1","kind"`, 1), `Pod default/a-n, W /f: document 1: Pod default/a: duplicate field "apiVersion"`},
		"another case": {strings.Replace(pod, "containers", "Containers", 1),
			`W /f: document 1: Pod default/a: unknown field "spec.Containers", E /f: document 1: Pod default/a: spec.containers: Required value`},
		"nothing":  {"# nothing\n---\n", "E /f: there is no object in it"},
		"a text":   {"hello", "E /f: document 1: the object: Invalid value"},
		"binary":   {"\x00\x01\xff", "E /f: document 1: yaml: line 1: control characters are not allowed"},
		"half":     {pod[:50], "E /f: document 1: yaml: line 1: did not find expected ',' or '}'"},
		"two JSON": {pod + "\n" + pod, "E /f: document 1: yaml: line 1: did not find expected <document start>"},
		"no kind":  {"metadata: {name: a}", "E /f: document 1: kind: Required value: must be Pod, ConfigMap, Secret or List"},
		"another kind": {podText("a", "i") + "---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}",
			`Pod default/a-n, E /f: document 2: Deployment default/d: kind: Unsupported value: "Deployment": supported values: "Pod", "ConfigMap", "Secret", "List"`},
		"another version": {strings.Replace(pod, `"v1"`, `"v2"`, 1), `E /f: document 1: Pod default/a: apiVersion: Unsupported value: "v2": supported values: "v1"`},
		"list in a list":  {`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List"}]}`, "E /f: document 1: kind: a List is in a List"},
		"list of v2":      {`{"apiVersion":"v2","kind":"List"}`, `E /f: document 1: apiVersion: Unsupported value: "v2": supported values: "v1"`},
		"no name":         {strings.Replace(pod, `"a"`, `""`, 1), "E /f: document 1: Pod default/: metadata.name: Required value"},
		"bad names": {`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"../a","namespace":"../b"}}`,
			"E /f: document 1: Secret ../b/../a: [metadata.name: Invalid value, metadata.namespace: Invalid value]"},
		"bad keys": {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {../x: a, ok: b}, binaryData: {..: YQ==}}",
			"E /f: document 1: ConfigMap default/a: [data[../x]: Invalid value, binaryData[..]: Invalid value]"},
		"a Secret's keys": {"{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {a/b: czNjcmV0}, stringData: {'': s3cret}}",
			"E /f: document 1: Secret default/a: [data[a/b]: Invalid value, stringData[]: Invalid value]"},
		"all that is wrong": {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"A"},"spec":{"containers":[{"name":"c"}]}}`,
			"E /f: document 1: Pod default/A: [metadata.name: Invalid value, spec.containers[0].image: Required value]"},
		"a field's type":     {strings.Replace(pod, `"i"`, "5", 1), "E /f: document 1: Pod default/a: spec.containers[0].image: Invalid value"},
		"secret as anchor":   {"a: *s3cret", "E /f: document 1: yaml: line 1: an alias (*) is of no anchor (&); a text that begins with * needs quotes"},
		"secret as key":      {"? {s3cret: x}\n: a", "E /f: document 1: yaml: a key is neither a text nor a number; a text that begins with { needs quotes"},
		"secret under null":  {"data: {~: s3cret}", "E /f: document 1: data: a key is neither a text nor a number, or is written in two ways"},
		"secret with a tag":  {"a: !!int s3cret", "E /f: document 1: yaml: line 1: a value is not what its tag (!) says; a text that begins with ! needs quotes"},
		"secret's base64":    {"{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {a: s3cret}}", "E /f: document 1: Secret default/a: data[a]: Invalid value"},
		"a key in two ways":  {"{1: a, '1': b}", "E /f: document 1: the document: a key is neither a text nor a number, or is written in two ways"},
		"a list of nothing":  {`{"apiVersion":"v1","kind":"List","items":[null]}`, "E /f: document 1: items[0]: kind: Required value: must be Pod, ConfigMap, Secret or List"},
		"a list with a text": {`{"apiVersion":"v1","kind":"PodList","items":["a"]}`, "E /f: document 1: items[0]: the object: Invalid value"},
	} {
		t.Run(name, func(t *testing.T) {
			m := testFolder(t).decode("/f", []byte(tc.text))
			got := said(m)
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if strings.Contains(fmt.Sprint(m.errors, m.warnings), "s3cret") {
				t.Errorf("an error or warning contains a secret: %v %v", m.errors, m.warnings)
			}
		})
	}
}

// said returns a description of the contents of a manifest, without the values of invalid fields.
func said(m manifest) string {
	var words []string
	for _, o := range m.objects {
		words = append(words, o.String())
	}
	for _, w := range m.warnings {
		words = append(words, "W "+w.Error())
	}
	for _, e := range m.errors {
		text := e.Error()
		var all utilerrors.Aggregate
		if errors.As(e, &all) {
			for _, one := range all.Errors() {
				if field, _, ok := strings.Cut(one.Error(), ": Invalid value"); ok {
					text = strings.Replace(text, one.Error(), field+": Invalid value", 1)
				}
			}
		}
		words = append(words, "E "+text)
	}
	return strings.Join(words, ", ")
}

// PowerShell's > writes UTF-16. Documents are separated after the text has been decoded (kubernetes #140531).
func TestM8_ManifestsInEachEncodingOfUnicode(t *testing.T) {
	text := podText("a", "i") + "# näher 😀\n---\n" + podText("b", "i")
	sixteen := func(order binary.AppendByteOrder, text string) (wide []byte) {
		for _, unit := range utf16.Encode([]rune(text)) {
			wide = order.AppendUint16(wide, unit)
		}
		return wide
	}
	for name, file := range map[string][]byte{
		"UTF-8":                          []byte(text),
		"UTF-8, mark":                    []byte("\ufeff" + text),
		"UTF-16, little endian, mark":    sixteen(binary.LittleEndian, "\ufeff"+text),
		"UTF-16, big endian, mark":       sixteen(binary.BigEndian, "\ufeff"+text),
		"UTF-16, little endian, no mark": sixteen(binary.LittleEndian, text),
		"UTF-16, big endian, no mark":    sixteen(binary.BigEndian, text),
		"CRLF":                           sixteen(binary.LittleEndian, "\ufeff"+strings.ReplaceAll(text, "\n", "\r\n")),
	} {
		if got, want := said(testFolder(t).decode("/f", file)), "Pod default/a-n, Pod default/b-n"; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := said(testFolder(t).decode("/f", []byte("\xff\xfea"))); !strings.Contains(got, "not valid UTF-16") {
		t.Errorf("half a character: %s", got)
	}
}

func TestDecodedPods(t *testing.T) {
	pod := testFolder(t).decode("/etc/pods/a.yaml", []byte(podText("a", "i"))).objects[0].Object.(*v1.Pod)
	if pod.Annotations[runtime.AnnotationConfigSource] != "edge" || pod.Annotations[runtime.AnnotationConfigSeen] == "" {
		t.Errorf("annotations are %v", pod.Annotations)
	}
	if pod.Spec.RestartPolicy != v1.RestartPolicyAlways || pod.Spec.NodeName != "n" || pod.Status.Phase != v1.PodPending {
		t.Errorf("without defaults or identity: %+v", pod)
	}
	// A kubelet's kind of source, whatever the name of this one: the UID is that of the file.
	want := podspec.Static(&v1.Pod{ObjectMeta: pod.ObjectMeta}, "n", podspec.Source{})
	if len(pod.UID) != 32 || want.UID != pod.UID {
		t.Errorf("the UID is %q", pod.UID)
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		podText("a", "i") + "---\n" + podText("a", "i"), `{"apiVersion":"v1","kind":"List","items":[{"kind":"Pod"},null]}`,
		"a: &a [*a]", "? {a: b}\n: c", "{1: a, '1': b}", "---\n...\n--- a", "%YAML 1.1\n---\na", "\ufeff",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {a: b}}\nspec: {containers: [{name: c, image: i, resources: {limits: {cpu: 1}}, livenessProbe: {exec: {command: [a]}}}]}",
	} {
		f.Add([]byte(text))
	}
	folder := testFolder(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		m := folder.decode("/f", text)
		if len(m.objects)+len(m.errors) == 0 && !strings.Contains(string(text), kindList) {
			t.Error("a file that says nothing, and nothing is wrong with it")
		}
		if (m.unread || len(m.broken) > 0) && len(m.errors) == 0 {
			t.Error("the manifest is invalid, and there is no error")
		}
		for _, o := range m.objects {
			if pod, ok := o.Object.(*v1.Pod); ok && podspec.Validate(pod) != nil {
				t.Errorf("%s is not valid: %v", o, podspec.Validate(pod))
			}
			if o.GetName() != o.name || o.GetNamespace() != o.namespace {
				t.Errorf("%s is %s/%s, want Name %v and Namespace %v", o, o.GetNamespace(), o.GetName(), o.name, o.namespace)
			}
		}
		again := succeed(nil, &manifestFile{manifest: folder.decode("/f", text)})
		file := succeed(&manifestFile{manifest: m, complete: true}, again)
		if !reflect.DeepEqual(said(m), said(folder.decode("/f", text))) {
			t.Error("another time it says something else")
		}
		if len(file.objects) < len(m.objects) {
			t.Error("the same again, and something is gone")
		}
	})
}

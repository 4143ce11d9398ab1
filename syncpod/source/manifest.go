package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/podsync/podsync/internal/quantities"
	"github.com/podsync/podsync/internal/utf"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/podspec"
)

// The object kinds in manifests.
const (
	kindPod       = "Pod"
	kindConfigMap = "ConfigMap"
	kindSecret    = "Secret"
	kindList      = "List" // also the end of the kinds of typed lists
)

// An objectKey identifies an object: no two objects in a folder share it.
type objectKey struct {
	kind, namespace, name string
}

func (k objectKey) String() string { return k.kind + " " + k.namespace + "/" + k.name }

// An object is a *v1.Pod, *v1.ConfigMap or *v1.Secret from a manifest.
type object struct {
	objectKey
	metav1.Object
	document int // the document's number in its file
}

// A manifest has a file's decoded objects and errors.
type manifest struct {
	objects  []object
	errors   []error
	warnings []error
	// broken are objects that are named in the file but not valid.
	broken map[objectKey]bool
	// unread means that there may be objects whose names are unknown.
	unread bool
}

// One file's limits, in addition to its size.
const (
	// maxDocuments limits the documents, maxObjects the objects in them.
	maxDocuments, maxObjects = 1000, 10_000
	// maxProblems limits the errors, and the warnings, that are kept. After as many errors, the file is
	// not read further.
	maxProblems = 100
)

// A decoder reads one file.
type decoder struct {
	node, source, file string
	now                time.Time
	document           int // the current document's number
	found              int // the objects so far
	ended              bool
	manifest
}

// decode fills in the manifest from the file's text.
func (d *decoder) decode(text []byte) {
	text, err := utf.Decode(text)
	if err != nil {
		d.fail("", err)
		d.unread = true
		return
	}
	for line, document := range documents(text) {
		raw, warning, err := toJSON(document, line)
		if err == nil && string(bytes.TrimSpace(raw)) == "null" {
			continue // there were only comments
		}
		if d.document++; d.document > maxDocuments {
			d.end(fmt.Errorf("the file has more than %d documents: the rest is not read", maxDocuments))
		}
		if d.ended {
			return
		}
		if warning != nil {
			d.warn("", warning)
		}
		if err != nil {
			d.fail("", err)
			d.unread = true
			continue
		}
		d.decodeObject(raw, "", "")
	}
	if d.document == 0 {
		// A file that is about to be written is empty at first.
		d.fail("", errors.New("there is no object in it"))
		d.unread = true
	}
}

func (d *decoder) fail(about string, err error) {
	d.problem(&ManifestError{File: d.file, Document: d.document, Object: about, Err: err})
}

// problem records an error, unless there are too many.
func (d *decoder) problem(err *ManifestError) {
	switch {
	case d.ended:
	case len(d.errors) < maxProblems:
		d.errors = append(d.errors, err)
	default:
		d.end(fmt.Errorf("the file has more than %d errors: the rest is not read", maxProblems))
	}
}

// end stops reading the file.
func (d *decoder) end(why error) {
	if !d.ended {
		d.errors = append(d.errors, &ManifestError{File: d.file, Err: why})
		d.ended, d.unread = true, true
	}
}

func (d *decoder) warn(about string, err error) {
	switch n := len(d.warnings); {
	case n == maxProblems:
		about, err = "", fmt.Errorf("there are more than %d warnings", maxProblems)
	case n > maxProblems:
		return
	}
	d.warnings = append(d.warnings, &ManifestError{File: d.file, Document: d.document, Object: about, Err: err})
}

// A head has the fields that all object kinds have, and lists' fields.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Items items `json:"items"`
}

// items are a list's items. If there are too many, only the first ones are kept.
type items []json.RawMessage

// UnmarshalJSON stops when there are too many items.
func (i *items) UnmarshalJSON(raw []byte) error {
	*i = nil
	decoder := json.NewDecoder(bytes.NewReader(raw))
	first, err := decoder.Token()
	if err != nil || first == nil {
		return err
	}
	if first != json.Delim('[') {
		return errors.New("it must be a list")
	}
	for decoder.More() && len(*i) <= maxObjects {
		var item json.RawMessage
		if err := decoder.Decode(&item); err != nil {
			return err
		}
		*i = append(*i, item)
	}
	return nil
}

// title names an object as its manifest does.
func (h *head) title() string {
	namespace, name := h.Metadata.Namespace, h.Metadata.Name
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return objectKey{h.Kind, namespace, name}.String()
}

// decodeObject decodes an object. In a typed list, list is its kind. item identifies it until its
// name is known.
func (d *decoder) decodeObject(raw []byte, list, item string) {
	var h head
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &h); err != nil {
		d.fail(item, unfit[head](raw, false, err))
		d.unread = true
		return
	}
	if d.found++; d.found > maxObjects {
		d.end(fmt.Errorf("the file has more than %d objects: the rest is not read", maxObjects))
	}
	if d.ended {
		return
	}
	if of := strings.TrimSuffix(list, kindList); of != "" && h.Kind == "" {
		h.APIVersion, h.Kind = "v1", of
	}
	switch h.Kind {
	case "":
		d.fail(item, field.Required(field.NewPath("kind"), "must be Pod, ConfigMap, Secret or List"))
		d.unread = true
	case kindPod:
		d.decodePod(raw, &h)
	case kindConfigMap:
		d.decodeConfigMap(raw, &h)
	case kindSecret:
		d.decodeSecret(raw, &h)
	case kindList, kindPod + kindList, kindConfigMap + kindList, kindSecret + kindList:
		d.decodeList(&h, list)
	default:
		d.fail(h.title(), unsupported("kind", h.Kind, kindPod, kindConfigMap, kindSecret, kindList))
	}
}

func (d *decoder) decodeList(h *head, within string) {
	switch {
	case within != "":
		d.fail("", fmt.Errorf("kind: a %s is in a %s", h.Kind, within))
		d.unread = true
	case h.APIVersion != "v1":
		d.fail("", unsupported("apiVersion", h.APIVersion, "v1"))
		d.unread = true
	default:
		for i, item := range h.Items {
			if d.ended {
				return
			}
			d.decodeObject(item, h.Kind, fmt.Sprintf("items[%d]", i))
		}
	}
}

func unsupported(name, value string, supported ...string) error {
	return field.NotSupported(field.NewPath(name), value, supported)
}

// keyOf returns the key that the object will have.
func (d *decoder) keyOf(h *head) objectKey {
	o := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: h.Metadata.Name, Namespace: h.Metadata.Namespace, UID: "-"}}
	static := podspec.Static(o, d.node, podspec.Source{})
	if h.Kind != kindPod {
		static.Name = o.Name
	}
	return objectKey{h.Kind, static.Namespace, static.Name}
}

// refuse records an error for a named object.
func (d *decoder) refuse(h *head, err error) {
	key := d.keyOf(h)
	d.problem(&ManifestError{File: d.file, Document: d.document, Object: h.title(), Err: err, key: key})
	d.broken[key] = true
}

// add adds an object, or records why it cannot.
func (d *decoder) add(h *head, o metav1.Object) {
	key := d.keyOf(h)
	o.SetNamespace(key.namespace)
	o.SetName(key.name)
	d.objects = append(d.objects, object{key, o, d.document})
}

// fill decodes an object. Unknown fields cause a warning and are ignored, because another agent that reads the folder
// may know them. fill returns them, and a nil object if the object was rejected.
func fill[T any](d *decoder, raw []byte, h *head) (o *T, unknown []error) {
	if h.APIVersion != "v1" {
		d.refuse(h, unsupported("apiVersion", h.APIVersion, "v1"))
		return nil, nil
	}
	if quantities.Suspect(raw) { // the decoder would not end
		if err := unfit[T](raw, h.Kind == kindPod, nil); err != nil {
			d.refuse(h, err)
			return nil, nil
		}
	}
	o = new(T)
	unknown, err := kjson.UnmarshalStrict(raw, o)
	if err != nil {
		fits, _ := findMisfits(raw, reflect.TypeFor[T](), false)
		unknown, _ = kjson.UnmarshalStrict(fits, new(T))
		d.refuse(h, unfit[T](raw, h.Kind == kindPod, err))
		o = nil
	}
	for _, w := range unknown {
		d.warn(h.title(), w)
	}
	return o, unknown
}

// unfit returns which fields do not fit a type, or the decoder's error if that is unknown. With
// values, the errors contain the values.
func unfit[T any](raw []byte, values bool, err error) error {
	if _, errs := findMisfits(raw, reflect.TypeFor[T](), values); len(errs) > 0 {
		return errs.ToAggregate()
	}
	return err
}

func (d *decoder) decodePod(raw []byte, h *head) {
	pod, unknown := fill[v1.Pod](d, raw, h)
	if pod == nil {
		return
	}
	if err := unknownVolumes(pod, unknown); err != nil {
		d.refuse(h, err)
		return
	}
	if pod.Name == "" {
		d.refuse(h, field.Required(field.NewPath("metadata", "name"), ""))
		return
	}
	pod = podspec.Static(pod, d.node, podspec.Source{Kind: runtime.ConfigSourceFile, Name: d.source, Location: d.file, Seen: d.now})
	pod = podspec.Default(pod)
	if err := podspec.Validate(pod); err != nil {
		d.refuse(h, err)
		return
	}
	d.add(h, pod)
}

// unknownVolumes rejects volumes with unknown kinds. Without its kind a volume would become an
// empty directory, without the files that the pod expects.
func unknownVolumes(pod *v1.Pod, unknown []error) error {
	var problems field.ErrorList
	for _, err := range unknown {
		at, ok := errors.AsType[kjson.FieldError](err)
		if !ok {
			continue
		}
		for i := range pod.Spec.Volumes {
			of := fmt.Sprintf("spec.volumes[%d].", i)
			kind, within := strings.CutPrefix(at.FieldPath(), of)
			if within && kind != "name" && !strings.ContainsAny(kind, ".[") && pod.Spec.Volumes[i].VolumeSource == (v1.VolumeSource{}) {
				problems = append(problems, field.Forbidden(field.NewPath("spec", "volumes").Index(i).Child(kind), "volumes of this kind are not known"))
			}
		}
	}
	return problems.ToAggregate()
}

// decode decodes the text in a folder's file.
func (f *Folder) decode(file string, text []byte) manifest {
	d := &decoder{node: f.node, source: f.name, file: file, now: time.Now()}
	d.broken = map[objectKey]bool{}
	d.decode(text)
	return d.manifest
}

// unreadable returns the manifest for a file that cannot be read.
func unreadable(file string, err error) manifest {
	return manifest{unread: true, errors: []error{&ManifestError{File: file, Err: fmt.Errorf("not read: %w", err)}}}
}

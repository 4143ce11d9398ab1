package podspec

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podsync/podsync/runtime"
)

// Source describes where a static pod was defined.
type Source struct {
	// Kind is the kind of source: runtime.ConfigSourceFile or "" for a file. For any other kind,
	// Location is a URL.
	Kind string
	// Location is the path of the file, or the URL.
	Location string
	// Name is the value of the annotation runtime.AnnotationConfigSource. "" means Kind; an agent
	// with two sources of a kind distinguishes their pods by it.
	Name string
	// Seen is when the pod was first seen in the source. Zero omits the annotation.
	Seen time.Time
}

// Static returns a copy of the pod with the identity that a kubelet gives to a static pod: the name
// <name>-<node>, the namespace "default" if it has none, a UID if it has none, the node's name, a
// static pod's annotations, and the phase Pending. A pod from a file tolerates all NoExecute
// taints. Call Static once for each manifest as written: a second call would extend the name again.
// It returns nil for nil.
//
// Look the pod up by its UID, or by its new name. A name that [Validate] rejects, or an empty one,
// is not changed.
//
// The UID is the 128-bit FNV-1a hash, as 32 hexadecimal digits, of the pod's metadata and spec
// followed by "host:<node>file:<path>", or "url:<URL>" for other sources. So the same pod on two
// nodes or in two files has two UIDs, and an edited one becomes another pod. Metadata and spec are
// hashed as compact JSON with sorted keys and without null, "" and empty lists and objects, so that
// a new field of the Kubernetes API changes no UID.
//
// A pod that [ValidateQuantities] rejects gets no UID: its spec cannot be hashed.
//
// A kubelet hashes a Go dump of Kubernetes' internal types with its version's defaults. That is not
// reproducible elsewhere, and changes between versions, so the UID differs from the kubelet's. Both
// keep a manifest's own UID.
func Static(pod *v1.Pod, nodeName string, source Source) *v1.Pod {
	if pod == nil {
		return nil
	}
	set(&source.Kind, runtime.ConfigSourceFile)
	set(&source.Name, source.Kind)
	static := pod.DeepCopy()
	if static.UID == "" && ValidateQuantities(static) == nil {
		static.UID = uidOf(static, nodeName, source)
	}
	if validation.IsDNS1123Subdomain(static.Name) == nil {
		static.Name += "-" + strings.ToLower(nodeName)
	}
	set(&static.Namespace, metav1.NamespaceDefault)
	static.Spec.NodeName = nodeName
	static.Status = v1.PodStatus{Phase: v1.PodPending}
	static.Annotations = annotated(static, source)
	if source.Kind == runtime.ConfigSourceFile {
		tolerateEviction(&static.Spec)
	}
	return static
}

func annotated(pod *v1.Pod, source Source) map[string]string {
	a := make(map[string]string, len(pod.Annotations)+3)
	maps.Copy(a, pod.Annotations)
	a[runtime.AnnotationConfigSource] = source.Name
	a[runtime.AnnotationConfigHash] = string(pod.UID)
	if !source.Seen.IsZero() {
		a[runtime.AnnotationConfigSeen] = source.Seen.Format(time.RFC3339Nano)
	}
	return a
}

// tolerateEviction adds a toleration that keeps a static pod on its node, whatever taints the node has.
func tolerateEviction(spec *v1.PodSpec) {
	all := v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}
	for i := range spec.Tolerations {
		if spec.Tolerations[i].MatchToleration(&all) {
			spec.Tolerations[i] = all // without a time limit
			return
		}
	}
	spec.Tolerations = append(spec.Tolerations, all)
}

func uidOf(pod *v1.Pod, nodeName string, source Source) types.UID {
	h := fnv.New128a()
	h.Write(canonical(pod))
	if source.Kind == runtime.ConfigSourceFile {
		fmt.Fprintf(h, "host:%sfile:%s", nodeName, source.Location)
	} else {
		fmt.Fprintf(h, "url:%s", source.Location)
	}
	return types.UID(hex.EncodeToString(h.Sum(nil)))
}

// canonical returns a text that is equal for all equivalent pods, in all versions of the API that have their
// fields.
func canonical(pod *v1.Pod) []byte {
	text, err := json.Marshal(v1.Pod{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec})
	if err != nil {
		return []byte(pod.Namespace + "/" + pod.Name) // a pod that a program has built may not be valid JSON
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return text
	}
	text, _ = json.Marshal(pruned(tree)) // a JSON value can be marshalled
	return text
}

// pruned returns the tree without empty parts, nil if all parts are empty.
func pruned(tree any) any {
	switch t := tree.(type) {
	case string:
		if t == "" {
			return nil
		}
	case []any:
		if len(t) == 0 {
			return nil
		}
		for i := range t {
			t[i] = pruned(t[i]) // keeps its place, as null
		}
	case map[string]any:
		maps.DeleteFunc(t, func(key string, _ any) bool {
			t[key] = pruned(t[key])
			return t[key] == nil
		})
		if len(t) == 0 {
			return nil
		}
	}
	return tree
}

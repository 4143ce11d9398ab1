package source

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/lastknown"
	"github.com/podsync/podsync/syncpod/podspec"
)

// keep drops all answers except the named ones, and returns these in order, with the keys for the objects that do not
// exist.
func keep[K comparable, T any](a *lastknown.Answers[K, T], named map[K]bool, compare func(a, b K) int) (kept []answered[K, T], missing []K) {
	a.Keep(func(key K) bool { return named[key] })
	all, absent := a.Known()
	for _, key := range slices.SortedFunc(maps.Keys(all), compare) {
		kept = append(kept, answered[K, T]{key, all[key]})
	}
	return kept, slices.SortedFunc(maps.Keys(absent), compare)
}

// answered is one answer.
type answered[K comparable, T any] struct {
	key    K
	answer T
}

// byNames returns objects by their names.
func byNames[T metav1.Object](all []T) map[types.NamespacedName]T {
	byName := map[types.NamespacedName]T{}
	for _, object := range all {
		byName[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}] = object
	}
	return byName
}

// setOf returns names as a set.
func setOf(names []types.NamespacedName) map[types.NamespacedName]bool {
	set := map[types.NamespacedName]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
}

// objectsOf returns the objects in the answers.
func objectsOf[T any](kept []answered[types.NamespacedName, T]) (all []T) {
	for _, k := range kept {
		all = append(all, k.answer)
	}
	return all
}

func compareNames(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }

// named are the objects that pods refer to.
type named struct {
	configMaps, secrets map[types.NamespacedName]bool
	// namespaces are the namespaces with the Services whose environment variables the pods
	// get.
	namespaces, classes map[string]bool
	tokens              map[tokenKey]bool
}

// masterNamespace is the namespace with the API server's Service, whose variables all pods
// get.
const masterNamespace = metav1.NamespaceDefault

func namedBy(pods []*v1.Pod) named {
	n := named{
		configMaps: map[types.NamespacedName]bool{}, secrets: map[types.NamespacedName]bool{},
		namespaces: map[string]bool{masterNamespace: true}, classes: map[string]bool{}, tokens: map[tokenKey]bool{},
	}
	for _, pod := range pods {
		configMaps, secrets := podspec.References(pod)
		for _, name := range configMaps {
			n.configMaps[types.NamespacedName{Namespace: pod.Namespace, Name: name}] = true
		}
		for _, name := range secrets {
			n.secrets[types.NamespacedName{Namespace: pod.Namespace, Name: name}] = true
		}
		n.namespaces[pod.Namespace] = true
		if class := pod.Spec.RuntimeClassName; class != nil {
			n.classes[*class] = true
		}
		n.addTokens(pod)
	}
	return n
}

func (n named) addTokens(pod *v1.Pod) {
	for i := range pod.Spec.Volumes {
		projected := pod.Spec.Volumes[i].Projected
		if projected == nil {
			continue
		}
		for _, s := range projected.Sources {
			if s.ServiceAccountToken != nil {
				n.tokens[tokenOf(pod, s.ServiceAccountToken)] = true
			}
		}
	}
}

// tokenKey identifies a token.
type tokenKey struct {
	UID      types.UID `json:"podUID"`
	Audience string    `json:"audience,omitempty"`
	// Seconds is the token's requested lifetime.
	Seconds int64 `json:"expirationSeconds"`
}

// tokenSeconds is the API's default lifetime for a token.
const tokenSeconds = 3600

func tokenOf(pod *v1.Pod, ask *v1.ServiceAccountTokenProjection) tokenKey {
	key := tokenKey{UID: pod.UID, Audience: ask.Audience, Seconds: tokenSeconds}
	if ask.ExpirationSeconds != nil {
		key.Seconds = *ask.ExpirationSeconds
	}
	return key
}

func compareTokens(a, b tokenKey) int {
	return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Audience, b.Audience), cmp.Compare(a.Seconds, b.Seconds))
}

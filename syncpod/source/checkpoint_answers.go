package source

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/podspec"
)

// askTimeout is how long a source of objects may take to respond before the last answer is used.
const askTimeout = 2 * time.Second

// answers are the last answers, by request.
type answers[K comparable, T any] struct {
	changed func()

	mu    sync.Mutex
	byKey map[K]T
}

// load loads answers of the checkpoint.
func (a *answers[K, T]) load(all map[K]T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byKey = all
}

// ask requests an object, and stores the answer.
func (a *answers[K, T]) ask(ctx context.Context, key K, ask func(context.Context) (T, error)) (T, error) {
	answer, old, err := a.consult(ctx, key, ask)
	if old {
		return answer, nil
	}
	return answer, err
}

// consult requests an object, and stores the answer. If the source is unavailable, it returns the error with the
// last answer, if there is one; old is then true.
func (a *answers[K, T]) consult(ctx context.Context, key K, ask func(context.Context) (T, error)) (answer T, old bool, err error) {
	a.mu.Lock()
	last, known := a.byKey[key]
	a.mu.Unlock()
	asking := ctx
	if known {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(ctx, askTimeout)
		defer cancel()
	}
	answer, err = ask(asking)
	switch {
	case err == nil:
		a.store(key, answer)
	case env.NotFound(err):
		a.forget(key)
	case known && ctx.Err() == nil && isAway(err):
		return last, true, err
	}
	return answer, false, err
}

func (a *answers[K, T]) store(key K, answer T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last, known := a.byKey[key]; known && reflect.DeepEqual(last, answer) {
		return
	}
	a.byKey[key] = answer
	a.changed()
}

func (a *answers[K, T]) forget(key K) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.byKey[key]; known {
		delete(a.byKey, key)
		a.changed()
	}
}

// keep drops all answers except the named ones, and returns these in order.
func (a *answers[K, T]) keep(named map[K]bool, less func(a, b K) int) []answered[K, T] {
	a.mu.Lock()
	defer a.mu.Unlock()
	var kept []answered[K, T]
	for key, answer := range a.byKey {
		if named[key] {
			kept = append(kept, answered[K, T]{key, answer})
		} else {
			delete(a.byKey, key)
		}
	}
	slices.SortFunc(kept, func(a, b answered[K, T]) int { return less(a.key, b.key) })
	return kept
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
	// namespaces are the namespaces of the Services whose environment variables the pods get.
	namespaces, classes map[string]bool
	tokens              map[tokenKey]bool
}

// masterNamespace is the namespace of the API server's Service, whose variables all pods get.
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
	// Seconds is the requested lifetime of the token.
	Seconds int64 `json:"expirationSeconds"`
}

// tokenSeconds is the API's default lifetime of a token.
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

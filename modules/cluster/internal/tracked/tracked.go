// Package tracked keeps API objects in memory with client-go's ObjectTracker, and serves them as an API server does to
// nodes and controllers.
//
// The tracker of client-go alone cannot serve nodes: it sends each event to each watch, loses the events between a list
// and the watch that follows, panics when 100 events wait, and supports neither field selectors nor grace periods. A
// Store corrects that, and adds resource versions, UIDs, generations, finalizers and pod subresources. It is not a full
// API server: it validates and authorizes nothing, and sets pod defaults only.
package tracked

// The files:
//
//	tracked.go   Store: reads and writes
//	delete.go    deletions, with grace periods and finalizers
//	subresource.go  status, binding, eviction, tokens
//	watch.go     watches; history.go which events a watch gets
//	request.go   parses URLs; serve.go serves requests

import (
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	ktesting "k8s.io/client-go/testing"

	"github.com/podsync/podsync/syncpod/podspec"
	"github.com/podsync/podsync/syncpod/podspec/qos"
)

// A Store holds the objects. Its methods may be called concurrently.
type Store struct {
	scheme  *runtime.Scheme
	decoder runtime.Decoder
	mapper  meta.RESTMapper
	tracker ktesting.ObjectTracker
	// kinds caches the mapper's answers, which compares a request with all kinds: schema.GroupVersionKind by
	// schema.GroupVersionResource.
	kinds sync.Map

	mu sync.Mutex
	// version is the resource version of the last write.
	version int64
	history map[schema.GroupVersionResource]*history
}

// New returns a Store of the kinds of a scheme.
func New(scheme *runtime.Scheme) *Store {
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	return &Store{
		scheme: scheme, decoder: decoder, mapper: testrestmapper.TestOnlyStaticRESTMapper(scheme),
		tracker: ktesting.NewObjectTracker(scheme, decoder), version: 1, history: map[schema.GroupVersionResource]*history{},
	}
}

// A request names an object, or, for lists and watches, a kind.
type request struct {
	schema.GroupVersionResource
	namespace, name, subresource string
}

func (r request) notFound() error { return apierrors.NewNotFound(r.GroupResource(), r.name) }

func (r request) conflict(format string, args ...any) error {
	return apierrors.NewConflict(r.GroupResource(), r.name, fmt.Errorf(format, args...))
}

// object is the interface that all kinds implement.
type object interface {
	runtime.Object
	metav1.Object
}

// get returns a copy of an object.
func (s *Store) get(r request) (object, error) {
	found, err := s.tracker.Get(r.GroupVersionResource, r.namespace, r.name)
	if err != nil {
		return nil, err
	}
	return found.(object), nil
}

// create stores a new object.
func (s *Store) create(r request, made object) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if made.GetName() == "" && made.GetGenerateName() != "" {
		made.SetName(made.GetGenerateName() + rand.String(5))
	}
	if made.GetName() == "" {
		return nil, apierrors.NewBadRequest("metadata.name is missing, and metadata.generateName, too")
	}
	if made.GetNamespace() == "" {
		made.SetNamespace(r.namespace)
	}
	if made.GetNamespace() != r.namespace {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("metadata.namespace is %q, and that of the request %q", made.GetNamespace(), r.namespace))
	}
	made.SetUID(uuid.NewUUID())
	made.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	made.SetDeletionTimestamp(nil)
	made.SetGeneration(1)
	s.scheme.Default(made)
	if pod, ok := made.(*v1.Pod); ok {
		pod = podspec.Default(pod)
		pod.Status = v1.PodStatus{Phase: v1.PodPending, QOSClass: qos.Class(pod)}
		made = pod
	}
	r.name = made.GetName()
	if _, err := s.get(r); err == nil {
		return nil, apierrors.NewAlreadyExists(r.GroupResource(), r.name)
	}
	return made, s.write(r, nil, made)
}

// update stores a new version of an object. A request for the subresource status changes only the status, and any other
// request all fields but the status.
func (s *Store) update(r request, asked object) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.get(r)
	if err != nil {
		return nil, err
	}
	return s.replace(r, old, asked)
}

// replace is called with mu held.
func (s *Store) replace(r request, old, asked object) (object, error) {
	if v := asked.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		return nil, r.conflict("the object has been modified; please apply your changes to the latest version and try again")
	}
	if uid := asked.GetUID(); uid != "" && uid != old.GetUID() {
		return nil, r.conflict("Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, old.GetUID())
	}
	next := asked
	if r.subresource == "status" {
		next = old.DeepCopyObject().(object)
		copyField(next, asked, "status")
	} else {
		copyField(next, old, "status")
	}
	next.SetNamespace(old.GetNamespace())
	next.SetUID(old.GetUID())
	next.SetCreationTimestamp(old.GetCreationTimestamp())
	next.SetDeletionTimestamp(old.GetDeletionTimestamp())
	next.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	next.SetGeneration(old.GetGeneration())
	next.SetResourceVersion(old.GetResourceVersion())
	if !equality.Semantic.DeepEqual(fieldOf(old, "spec"), fieldOf(next, "spec")) {
		next.SetGeneration(old.GetGeneration() + 1)
	}
	if canDelete(next) {
		return next, s.remove(r, next)
	}
	s.setKind(r, next)
	if equality.Semantic.DeepEqual(old, next) {
		return old, nil
	}
	return next, s.write(r, old, next)
}

// write stores an object as a new one, or in place of old. It is called with mu held.
func (s *Store) write(r request, old, next object) error {
	s.version++
	next.SetResourceVersion(strconv.FormatInt(s.version, 10))
	s.setKind(r, next)
	var err error
	if old == nil {
		err = s.tracker.Create(r.GroupVersionResource, next, r.namespace)
	} else {
		err = s.tracker.Update(r.GroupVersionResource, next, r.namespace)
	}
	if err == nil {
		s.historyOf(r.GroupVersionResource).add(s.version, old, next.DeepCopyObject().(object))
	}
	return err
}

// remove removes an object. It is called with mu held.
func (s *Store) remove(r request, old object) error {
	s.version++
	err := s.tracker.Delete(r.GroupVersionResource, r.namespace, r.name)
	if err == nil {
		last := old.DeepCopyObject().(object)
		last.SetResourceVersion(strconv.FormatInt(s.version, 10))
		s.historyOf(r.GroupVersionResource).add(s.version, last, nil)
	}
	return err
}

// patch patches an object. A server-side apply creates the object if it does not exist.
func (s *Store) patch(r request, kind types.PatchType, patch []byte, o metav1.PatchOptions) (object, error) {
	s.mu.Lock()
	old, err := s.get(r)
	if err != nil && !(apierrors.IsNotFound(err) && kind == types.ApplyPatchType) {
		s.mu.Unlock()
		return nil, err
	}
	if err != nil {
		s.mu.Unlock()
		made, err := s.decode(r, patch)
		if err != nil {
			return nil, err
		}
		return s.create(r, made)
	}
	defer s.mu.Unlock()
	if _, untyped := old.(*unstructured.Unstructured); kind == types.ApplyPatchType && !untyped {
		kind = types.StrategicMergePatchType
	} else if kind == types.ApplyPatchType {
		kind = types.MergePatchType
	}
	patched := &patching{ObjectTracker: s.tracker}
	action := ktesting.NewPatchActionWithOptions(r.GroupVersionResource, r.namespace, r.name, kind, patch, o)
	if _, _, err := ktesting.ObjectReaction(patched)(action); err != nil {
		if _, ok := err.(apierrors.APIStatus); !ok {
			err = apierrors.NewBadRequest(err.Error())
		}
		return nil, err
	}
	return s.replace(r, old, patched.result)
}

// patching is a tracker that keeps the patched object instead of storing it.
type patching struct {
	ktesting.ObjectTracker
	result object
}

func (p *patching) Patch(_ schema.GroupVersionResource, o runtime.Object, _ string, _ ...metav1.PatchOptions) error {
	p.result = o.(object)
	return nil
}

// decode reads an object in any encoding.
func (s *Store) decode(r request, data []byte) (object, error) {
	gvk, err := s.kindOf(r)
	if err != nil {
		return nil, err
	}
	decoded, _, err := s.decoder.Decode(data, &gvk, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	made, ok := decoded.(object)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%T is no object with metadata", decoded))
	}
	return made, nil
}

func (s *Store) kindOf(r request) (schema.GroupVersionKind, error) {
	if known, ok := s.kinds.Load(r.GroupVersionResource); ok {
		return known.(schema.GroupVersionKind), nil
	}
	gvk, err := s.mapper.KindFor(r.GroupVersionResource)
	if err != nil {
		return gvk, apierrors.NewNotFound(r.GroupResource(), r.name)
	}
	s.kinds.Store(r.GroupVersionResource, gvk)
	return gvk, nil
}

// setKind sets the apiVersion and kind of an object, as in responses from an API
// server.
func (s *Store) setKind(r request, o object) {
	if gvk, err := s.kindOf(r); err == nil {
		o.GetObjectKind().SetGroupVersionKind(gvk)
	}
}

// fieldOf returns the field spec or status of an object, nil if its kind has none.
func fieldOf(o object, name string) any {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.Object[name]
	}
	if f := structField(o, name); f.IsValid() {
		return f.Interface()
	}
	return nil
}

// copyField copies the spec or status from one object to another of its kind.
func copyField(to, from object, name string) {
	if u, ok := to.(*unstructured.Unstructured); ok {
		if value, there := from.(*unstructured.Unstructured).Object[name]; there {
			u.Object[name] = value
		} else {
			delete(u.Object, name)
		}
		return
	}
	if f := structField(to, name); f.IsValid() {
		f.Set(structField(from, name))
	}
}

func structField(o object, name string) reflect.Value {
	field := map[string]string{"spec": "Spec", "status": "Status"}[name]
	return reflect.ValueOf(o).Elem().FieldByName(field)
}

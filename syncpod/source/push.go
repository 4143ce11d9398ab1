package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/podspec"
)

// Push is a [Source] for pods that a program provides, for example from an API server or a message queue. Its methods
// may be called concurrently, before, during and after Run. They do not wait until the pods are delivered.
//
// The program must call Set at least once, with all its pods or with none. Until then the source is not ready,
// Health is not OK, and the agent does not stop the pods that an earlier agent ran for this source. Update and
// Delete report later changes.
//
// To stop a pod within a given time, pass it to Update with a metadata.deletionTimestamp and the time in
// metadata.deletionGracePeriodSeconds. The program may then remove the pod with Delete or Set, at once or after it has
// stopped. The last grace period before the removal counts.
//
// The Push copies the pods, sets the API's defaults and validates them; a Push from [NewAdmittedPush] copies only what
// it changes. Each pod must have a UID; package podspec makes UIDs for pods without one.
//
// [NewPush] is for pods that are identified by their UIDs. [NewAdmittedPush] is for such pods that an API server has
// validated. [NewStaticPush] is for static pods, which are identified by their names.
type Push struct {
	name   string
	static bool
	// shared means that the program does not modify the pods that it has passed, so the Push copies only what it changes.
	shared   bool
	validate func(*v1.Pod) error
	// changed has a value while a snapshot must be delivered.
	changed chan struct{}

	mu   sync.Mutex
	pods map[types.UID]*v1.Pod
	// order has the pods ordered by their first updates.
	order []types.UID
	// complete: Set was called, so the Push has all pods.
	complete bool
	// delivered are the last snapshot's pods. leaving are the pods that changed after it and were then
	// removed.
	delivered map[types.UID]*v1.Pod
	leaving   []*v1.Pod
}

var _ Source = (*Push)(nil)

// NewPush returns a Push for pods that are identified by their UIDs, such as an API server's. Pods with the
// same name and different UIDs are different pods and run side by side. The source's name is
// runtime.ConfigSourceAPI, so a Loop can have only one such Push.
func NewPush() *Push { return newPush(runtime.ConfigSourceAPI, false, podspec.Validate) }

// NewAdmittedPush returns a Push like [NewPush] for pods that an API server has admitted. That server, of whatever
// version, has validated them; the Push refuses only podspec.ValidateAdmitted's errors. The program must not modify a
// pod that it has passed to the Push: it usually has the pod in a cache with the server's objects, and the Push shares
// its spec and status, and the whole pod after [SetAPISource].
func NewAdmittedPush() *Push {
	p := newPush(runtime.ConfigSourceAPI, false, podspec.ValidateAdmitted)
	p.shared = true
	return p
}

// SetAPISource sets a pod's annotation runtime.AnnotationConfigSource to runtime.ConfigSourceAPI. A Push from
// [NewAdmittedPush] then needs no pod copy. It modifies the pod, so call it before other goroutines read the pod.
func SetAPISource(pod *v1.Pod) {
	if pod == nil {
		return
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, runtime.AnnotationConfigSource, runtime.ConfigSourceAPI)
}

// NewStaticPush returns a Push for static pods, like a [Folder]'s pods. name is the source's name; it must be
// unique and not runtime.ConfigSourceAPI. A static pod is identified by its name: a pod with the same name
// with another UID is the next version, and waits until the version before has stopped. After an agent restart
// a finished pod runs again, unless the agent has a Root.
func NewStaticPush(name string) *Push { return newPush(name, true, podspec.Validate) }

func newPush(name string, static bool, validate func(*v1.Pod) error) *Push {
	return &Push{name: name, static: static, validate: validate, changed: make(chan struct{}, 1), pods: map[types.UID]*v1.Pod{}}
}

// Name returns the source's name.
func (p *Push) Name() string { return p.name }

// Static reports whether the pods are static: whether [NewStaticPush] created the Push.
func (p *Push) Static() bool { return p.static }

// Set replaces all the source's pods. Until the first call the snapshots are incomplete. The error joins all
// invalid pods' errors. Set accepts the valid pods; an invalid pod keeps its previous version, if it has one.
func (p *Push) Set(pods ...*v1.Pod) error { return errors.Join(p.set(pods)...) }

// set returns an error for each pod that is not valid.
func (p *Push) set(pods []*v1.Pod) (errs []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set := map[types.UID]*v1.Pod{}
	var order []types.UID
	for _, pod := range pods {
		ready, err := p.prepare(pod)
		if err == nil && set[ready.UID] != nil {
			err = fmt.Errorf("%s %s/%s: %w", kindPod, pod.Namespace, pod.Name, field.Duplicate(field.NewPath("metadata", "uid"), pod.UID))
		}
		if err != nil {
			errs = append(errs, err)
		}
		if err != nil && pod != nil {
			ready = p.pods[pod.UID]
		}
		if ready != nil && set[ready.UID] == nil {
			order = append(order, ready.UID)
			set[ready.UID] = ready
		}
	}
	for _, uid := range p.order {
		if set[uid] == nil {
			p.leave(uid)
		}
	}
	p.pods, p.order, p.complete = set, order, true
	p.notify()
	return errs
}

// Update adds a pod, or replaces it.
func (p *Push) Update(pod *v1.Pod) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	ready, err := p.prepare(pod)
	if err != nil {
		return err
	}
	if p.pods[pod.UID] == nil {
		p.order = append(p.order, pod.UID)
	}
	p.pods[pod.UID] = ready
	p.notify()
	return nil
}

// Delete removes a pod. The agent stops it within its last grace period: the one in its spec, or the one
// in an Update with a metadata.deletionTimestamp and deletionGracePeriodSeconds, which may directly
// precede the Delete. An unknown UID has no effect.
func (p *Push) Delete(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave(uid)
	delete(p.pods, uid)
	p.order = slices.DeleteFunc(p.order, func(other types.UID) bool { return other == uid })
	p.notify()
}

// leave records that a pod was removed. If its last update was not delivered, the Push delivers it first, because
// it may have another grace period.
func (p *Push) leave(uid types.UID) {
	pod, delivered := p.pods[uid], p.delivered[uid]
	if pod != nil && pod != delivered && (delivered != nil || pod.DeletionTimestamp != nil) {
		p.leaving = append(p.leaving, pod)
	}
}

// prepare returns the pod to deliver.
func (p *Push) prepare(pod *v1.Pod) (*v1.Pod, error) {
	ready := podspec.Default(pod)
	if ready == nil {
		return nil, errors.New("the pod is nil")
	}
	err := p.validate(ready)
	if ready.UID == "" {
		err = errors.Join(field.Required(field.NewPath("metadata", "uid"), "a pod is known by it; podspec.Static gives one"), err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s: %w", kindPod, pod.Namespace, pod.Name, err)
	}
	metav1.SetMetaDataAnnotation(&ready.ObjectMeta, runtime.AnnotationConfigSource, p.name)
	old := p.pods[ready.UID]
	if reflect.DeepEqual(old, ready) {
		return old, nil
	}
	return p.share(ready, pod, old), nil
}

// share returns the program's pod if it is equal to ready and shared. Otherwise it replaces equal parts in ready by those of
// the program's pod, if that is shared, or of the previous version. Most versions differ only in their status, and the agent keeps
// several.
func (p *Push) share(ready, pod, old *v1.Pod) *v1.Pod {
	if p.shared {
		if reflect.DeepEqual(pod, ready) {
			return pod
		}
		ready.Status = pod.Status
		if reflect.DeepEqual(&pod.Spec, &ready.Spec) {
			ready.Spec = pod.Spec
			return ready
		}
	}
	if old != nil && reflect.DeepEqual(&old.Spec, &ready.Spec) {
		ready.Spec = old.Spec
	}
	return ready
}

func (p *Push) notify() {
	select {
	case p.changed <- struct{}{}:
	default: // a value is pending
	}
}

// Run delivers the pods after each change, until ctx ends. It returns nil. It delivers nothing before Set's
// first call, Update or Delete. The next Run, of the next agent, begins with the pods that the Push has.
func (p *Push) Run(ctx context.Context, deliver func(Snapshot)) error {
	last := Snapshot{Incomplete: true}
	p.resume()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed:
		}
		for _, s := range p.snapshots() {
			if !same(s, last) {
				last = s
				deliver(s)
			}
		}
	}
}

// resume has a Run's first snapshot delivered if the program has provided pods.
func (p *Push) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.complete || len(p.pods) > 0 {
		p.notify()
	}
}

// snapshots returns the snapshots to deliver, in order.
func (p *Push) snapshots() (all []Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := Snapshot{Incomplete: !p.complete}
	for _, uid := range p.order {
		now.Pods = append(now.Pods, p.pods[uid])
	}
	if before := p.before(now); len(before.Pods) > len(now.Pods) {
		all = append(all, before)
	}
	p.delivered, p.leaving = maps.Clone(p.pods), nil
	return append(all, now)
}

// before returns a snapshot with the removed pods, in their last versions.
func (p *Push) before(now Snapshot) Snapshot {
	now.Pods = slices.Clone(now.Pods)
	for _, pod := range slices.Backward(p.leaving) {
		if !slices.ContainsFunc(now.Pods, func(other *v1.Pod) bool { return other.UID == pod.UID }) {
			now.Pods = append(now.Pods, pod)
		}
	}
	return now
}

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/podspec"
)

// Push is a [Source] of the pods that a program hands to it: from an API server,
// a message queue, or wherever it has them. Its methods may be called
// concurrently, before, while and after Run is running; they never wait for the
// pods to be delivered.
//
// Call Set once at least, with what there is to run or with nothing: until then the Push
// does not know all of its pods, so that it is not ready, Health is not OK, and what
// an earlier agent has left of its pods is not stopped. Update and Delete then say what
// changes.
//
// A pod that is to be gone within a time of its own is given to Update with that in
// metadata.deletionGracePeriodSeconds, and with a deletionTimestamp. It is stopped by that,
// and may be taken away with Delete, or Set, at once or when it has stopped: of all that
// was said of it the last time counts.
//
// Pods get the API's defaults and are validated. They need a UID, by which they
// are known; package podspec gives one to pods that have none. They are copied.
//
// [NewPush] is for pods each of which is one of a kind, whoever made them, and
// [NewAdmittedPush] for those among them that an API server has validated;
// [NewStaticPush] is for static pods, of which those of one name take turns.
type Push struct {
	name     string
	static   bool
	validate func(*v1.Pod) error
	// changed has a value while there is something to deliver.
	changed chan struct{}

	mu   sync.Mutex
	pods map[types.UID]*v1.Pod
	// order is that in which the pods first came.
	order []types.UID
	// complete tells that all pods are known: Set was called.
	complete bool
	// told are the pods of the last snapshot, and leaving those that were changed since
	// and then taken away.
	told    map[types.UID]*v1.Pod
	leaving []*v1.Pod
}

var _ Source = (*Push)(nil)

// NewPush returns a Push of pods as an API server has them, or whoever else gives each pod
// a UID of its own: pods with one name and different UIDs are different pods, and run side
// by side. Its name is runtime.ConfigSourceAPI, so a Loop can have one of them.
func NewPush() *Push { return newPush(runtime.ConfigSourceAPI, false, podspec.Validate) }

// NewAdmittedPush returns a Push like [NewPush] for pods that an API server has admitted. They are
// valid by the rules of that server, whatever its version, and refused only for what
// podspec.ValidateAdmitted finds.
func NewAdmittedPush() *Push {
	return newPush(runtime.ConfigSourceAPI, false, podspec.ValidateAdmitted)
}

// NewStaticPush returns a Push of static pods, as those of a [Folder] are, with the name
// of the source, which must be none of another source and not runtime.ConfigSourceAPI.
// The name of a static pod stands for it: one with another UID is the next version, and
// waits until the one before has stopped. What has ended is run again when the agent
// starts anew, unless a Store remembers that it has.
func NewStaticPush(name string) *Push { return newPush(name, true, podspec.Validate) }

func newPush(name string, static bool, validate func(*v1.Pod) error) *Push {
	return &Push{name: name, static: static, validate: validate, changed: make(chan struct{}, 1), pods: map[types.UID]*v1.Pod{}}
}

// Name returns the name of the source.
func (p *Push) Name() string { return p.name }

// Static reports whether the pods are static ones: [NewStaticPush] has made the Push.
func (p *Push) Static() bool { return p.static }

// Set says which pods should run: these, and no others. Until the first call the
// snapshots are incomplete. The error joins what is wrong with pods that are not
// valid; of each of them the version set before goes on, if there is one, and
// the others are taken.
func (p *Push) Set(pods ...*v1.Pod) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	set := map[types.UID]*v1.Pod{}
	var order []types.UID
	for _, pod := range pods {
		ready, err := p.prepare(pod)
		if err == nil && set[ready.UID] != nil {
			err = fmt.Errorf("%s %s/%s: %w", kindPod, pod.Namespace, pod.Name, field.Duplicate(field.NewPath("metadata", "uid"), pod.UID))
		}
		errs = append(errs, err)
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
	p.tell()
	return errors.Join(errs...)
}

// Update says that a pod should run as well, or has changed.
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
	p.tell()
	return nil
}

// Delete says that a pod should not run any more: it is stopped within the grace period
// that was told last, that of its spec, or of an Update with a
// metadata.deletionTimestamp and deletionGracePeriodSeconds, which may come right before.
// It has no effect for a pod that is not known.
func (p *Push) Delete(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave(uid)
	delete(p.pods, uid)
	p.order = slices.DeleteFunc(p.order, func(other types.UID) bool { return other == uid })
	p.tell()
}

// leave notes that a pod is taken away. What was said of it last is delivered before, if
// it has not been yet: it may give the pod another time to stop.
func (p *Push) leave(uid types.UID) {
	pod, told := p.pods[uid], p.told[uid]
	if pod != nil && pod != told && (told != nil || pod.DeletionTimestamp != nil) {
		p.leaving = append(p.leaving, pod)
	}
}

// prepare returns the pod as it is delivered.
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
	if ready.Annotations == nil {
		ready.Annotations = map[string]string{}
	}
	ready.Annotations[runtime.AnnotationConfigSource] = p.name
	if old := p.pods[ready.UID]; reflect.DeepEqual(old, ready) {
		return old, nil
	}
	return ready, nil
}

func (p *Push) tell() {
	select {
	case p.changed <- struct{}{}:
	default: // it is known already
	}
}

// Run delivers the pods each time they have changed, until ctx ends. It returns
// nil. Nothing is delivered before a method was called.
func (p *Push) Run(ctx context.Context, deliver func(Snapshot)) error {
	last := Snapshot{Incomplete: true}
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

// snapshots returns what is to be delivered, in order.
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
	p.told, p.leaving = maps.Clone(p.pods), nil
	return append(all, now)
}

// before is a snapshot with those that leave, as they are last.
func (p *Push) before(now Snapshot) Snapshot {
	now.Pods = slices.Clone(now.Pods)
	for _, pod := range slices.Backward(p.leaving) {
		if !slices.ContainsFunc(now.Pods, func(other *v1.Pod) bool { return other.UID == pod.UID }) {
			now.Pods = append(now.Pods, pod)
		}
	}
	return now
}

package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
)

// What Put and Delete may say, besides that a pod is not valid.
var (
	errNotFound = errors.New("there is no such pod")
	errStopping = errors.New("the pod of this name is being deleted: try again when it is gone")
)

// An Agent runs the pods that it receives, identified by namespace and name.
type Agent struct {
	*agent.Agent
	source *source.Push

	mu sync.Mutex
	// pods are those that should run, and those that are being deleted until they have
	// stopped. They are replaced, never written to.
	pods map[types.NamespacedName]*v1.Pod
}

// New returns an agent that does nothing until Run is called. Sources and
// Workers.Observer of the configuration are its own.
func New(c agent.Config) (*Agent, error) {
	a := &Agent{source: source.NewStaticPush("http"), pods: map[types.NamespacedName]*v1.Pod{}}
	c.Sources = []source.Source{a.source}
	c.Workers.Observer = observer{agent: a}
	var err error
	a.Agent, err = agent.New(c)
	return a, err
}

// Put says that a pod should run, and reports whether there was none of its name. A pod
// that is not as it was takes the place of the one before, once that has stopped: that
// is what a Push of static pods is for.
func (a *Agent) Put(pod *v1.Pod) (created bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.pods[nameOf(pod)]
	if was != nil && was.DeletionTimestamp != nil {
		return false, errStopping
	}
	pod, err = identified(pod)
	if err != nil {
		return false, err
	}
	if err := a.source.Update(pod); err != nil {
		return false, err
	}
	if was != nil && was.UID != pod.UID {
		a.source.Delete(was.UID)
	}
	a.pods[nameOf(pod)] = pod
	return was == nil, nil
}

// PutAll says which pods should run: these, and no others. What else there is, left by
// an earlier agent too, is stopped. Of pods that are not valid nothing changes.
func (a *Agent) PutAll(pods []v1.Pod) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[types.NamespacedName]*v1.Pod{}
	for i := range pods {
		pod, err := identified(&pods[i])
		if err != nil {
			return err
		}
		if all[nameOf(pod)] != nil {
			return fmt.Errorf("pod %s is there twice", nameOf(pod))
		}
		all[nameOf(pod)] = pod
	}
	// A source of its own shows whether all of them are valid, before any is changed.
	if err := source.NewStaticPush("trial").Set(slices.Collect(maps.Values(all))...); err != nil {
		return err
	}
	a.pods = all
	return a.source.Set(slices.Collect(maps.Values(all))...)
}

// Delete says that a pod should run no more. It is stopped within grace, or within its
// own grace period if that is nil, and there until then. To delete it once more with
// less makes it stop earlier; more has no effect.
func (a *Agent) Delete(name types.NamespacedName, grace *int64) error {
	lives := a.lives()
	a.mu.Lock()
	defer a.mu.Unlock()
	pod := a.pods[name]
	if pod == nil {
		return errNotFound
	}
	if lives[pod.UID].Phase >= podworkers.Finished { // nothing of it runs any more
		a.drop(pod)
		return nil
	}
	pod = pod.DeepCopy()
	pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if grace != nil || pod.DeletionGracePeriodSeconds == nil {
		pod.DeletionGracePeriodSeconds = grace
	}
	if err := a.source.Update(pod); err != nil {
		return err
	}
	a.pods[name] = pod
	return nil
}

func (a *Agent) drop(pod *v1.Pod) {
	delete(a.pods, nameOf(pod))
	a.source.Delete(pod.UID)
}

// An observer forgets pods that are being deleted once they have stopped and are
// cleaned up after.
type observer struct {
	podworkers.NopObserver
	agent *Agent
}

// PhaseChanged is called for each step in the life of a pod.
func (o observer) PhaseChanged(uid types.UID, _, to podworkers.Phase) {
	if to != podworkers.Finished {
		return
	}
	o.agent.mu.Lock()
	defer o.agent.mu.Unlock()
	for _, pod := range o.agent.pods {
		if pod.UID == uid && pod.DeletionTimestamp != nil {
			o.agent.drop(pod)
		}
	}
}

// List returns all pods with their statuses, by namespace and name.
func (a *Agent) List() []v1.Pod {
	lives := a.lives()
	a.mu.Lock()
	defer a.mu.Unlock()
	pods := []v1.Pod{}
	for _, pod := range a.pods {
		pods = append(pods, withStatus(pod, lives))
	}
	slices.SortFunc(pods, func(a, b v1.Pod) int { return strings.Compare(nameOf(&a).String(), nameOf(&b).String()) })
	return pods
}

// Get returns a pod with its status.
func (a *Agent) Get(name types.NamespacedName) (v1.Pod, error) {
	lives := a.lives()
	a.mu.Lock()
	defer a.mu.Unlock()
	if pod := a.pods[name]; pod != nil {
		return withStatus(pod, lives), nil
	}
	return v1.Pod{}, errNotFound
}

// lives returns how the pods do. It must not be called with mu held, which the loop
// waits for when it calls the observer.
func (a *Agent) lives() map[types.UID]loop.Pod {
	lives := map[types.UID]loop.Pod{}
	for _, life := range a.Pods() {
		lives[life.Pod.UID] = life
	}
	return lives
}

func withStatus(pod *v1.Pod, lives map[types.UID]loop.Pod) v1.Pod {
	shown := *pod
	shown.Status = lives[pod.UID].Status
	if shown.Status.Phase == "" {
		shown.Status.Phase = v1.PodPending // it has yet to be dealt with
	}
	return shown
}

// identified returns a pod with a UID that follows from what it says. So the pod is the
// same one when it is put again to another agent, and runs on.
func identified(pod *v1.Pod) (*v1.Pod, error) {
	text, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	pod = pod.DeepCopy()
	pod.UID = types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
	return pod, nil
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

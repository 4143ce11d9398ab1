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

	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
)

// The errors of Put and Delete, besides the errors of invalid pods.
var (
	errNotFound = errors.New("there is no such pod")
	errStopping = errors.New("the pod of this name is being deleted: try again when it is gone")
)

// An Agent runs the pods that it receives, identified by namespace and name.
type Agent struct {
	*agent.Agent
	source *source.Push

	mu sync.Mutex
	// pods are the desired pods, and the deleted ones until they have stopped. A pod is replaced and never modified.
	pods map[types.NamespacedName]*v1.Pod
}

// New returns an agent that does nothing until Run is called. It replaces Sources and Workers.Observer of the
// configuration.
func New(c agent.Config) (*Agent, error) {
	a := &Agent{source: source.NewStaticPush("http"), pods: map[types.NamespacedName]*v1.Pod{}}
	c.Sources = []source.Source{a.source}
	c.Finished = a.finished
	var err error
	a.Agent, err = agent.New(c)
	return a, err
}

// Put adds or replaces a pod, and reports whether no pod of its name existed. A changed pod starts after the old one
// has stopped, as with a Push of static pods.
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

// PutAll replaces the set of desired pods. All other pods are stopped, including those of an earlier agent. If a pod is
// invalid, nothing changes.
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
			return fmt.Errorf("pod %s is in the list twice", nameOf(pod))
		}
		all[nameOf(pod)] = pod
	}
	// A second source validates all pods before the agent changes any.
	if err := source.NewStaticPush("trial").Set(slices.Collect(maps.Values(all))...); err != nil {
		return err
	}
	a.pods = all
	return a.source.Set(slices.Collect(maps.Values(all))...)
}

// Delete stops a pod within grace, or within its own grace period if grace is nil. The pod is listed until it has
// stopped. A second Delete with a shorter period stops it earlier; a longer one has no effect.
func (a *Agent) Delete(name types.NamespacedName, grace *int64) error {
	lives := a.lives()
	a.mu.Lock()
	defer a.mu.Unlock()
	pod := a.pods[name]
	if pod == nil {
		return errNotFound
	}
	if lives[pod.UID].Phase.HasFinished() { // no container in it runs any more
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

// finished drops a deleted pod once it has stopped and has been cleaned up.
func (a *Agent) finished(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, pod := range a.pods {
		if pod.UID == uid && pod.DeletionTimestamp != nil {
			a.drop(pod)
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

// lives returns the pods' states. The caller must not hold mu: the loop calls the observer, which locks mu.
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
		shown.Status.Phase = v1.PodPending // the loop has not synced it yet
	}
	return shown
}

// identified returns a pod whose UID is a hash of its contents. A pod that is PUT again to the next agent therefore has
// the same UID, and keeps running.
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

package resize

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/podfile"
	"github.com/podsync/podsync/syncpod/podspec/resources"
)

// Config configures an Allocator. State is required.
type Config struct {
	// State is the absolute path of a directory with a file for each pod with its allocation. It
	// must outlive the agent; otherwise pending resizes count as accepted.
	State string
	// Allocatable are the node's resources for pods. A resource that is not in it is unlimited.
	Allocatable v1.ResourceList
	// Check returns why a resize can never be allocated, which is published, nil if it may be. It must not call the Allocator. The Resize of a
	// pinning.Manager is one. Default: Decide alone decides.
	Check func(allocated, desired *v1.Pod) error
	// Log receives a line for each accepted resize. Default: no log.
	Log logr.Logger
}

// retryInterval is the interval at which pending resizes are retried if no resources were freed.
const retryInterval = time.Minute

// An Allocator persists pod allocations. Its methods may be called concurrently.
type Allocator struct {
	config Config
	// decide is the function decide; a test replaces it.
	decide func(Request) Verdict
	files  podfile.Dir

	mu sync.Mutex
	// loaded is set once an earlier agent's files were read.
	loaded bool
	pods   map[types.UID]*entry
	// changed is called for pods whose pending resize was accepted: those in accepted, after mu is
	// released.
	changed  func(types.UID)
	accepted []types.UID
}

// entry is one pod.
type entry struct {
	// pod is the desired pod, nil for a pod that is only known from its file.
	pod       *v1.Pod
	allocated allocation
	// requests are the requests of a pod that is only known from its file.
	requests v1.ResourceList
	// since is when the pending resize was requested, zero if there is none; asked is the requested
	// allocation, verdict the last decision on it.
	since   time.Time
	asked   allocation
	verdict Verdict
	// reserved is set until the first Allocate of a pod, before which it has no file.
	reserved bool
}

// storedVersion is the version of the files' format.
const storedVersion = 1

// stored is a file's content. A newer version's files are read too; only the fields with these names count.
type stored struct {
	Version    int             `json:"version"`
	Containers allocation      `json:"containers"`
	Requests   v1.ResourceList `json:"requests,omitempty"`
}

// New returns an Allocator. It reads nothing yet.
func New(c Config) (*Allocator, error) {
	if !filepath.IsAbs(c.State) {
		return nil, fmt.Errorf("resize: Config.State is %q, want an absolute path", c.State)
	}
	for name, q := range c.Allocatable {
		if q.Sign() < 0 {
			return nil, fmt.Errorf("resize: Config.Allocatable: %s is %s, want 0 or more", name, q.String())
		}
	}
	return &Allocator{config: c, decide: Decide, files: podfile.Dir(c.State), pods: map[types.UID]*entry{}}, nil
}

// Notify registers a callback for pods whose pending resize was accepted while another pod was
// processed. A loop.Loop calls Notify of its syncpod.Extensions.Allocations.
func (a *Allocator) Notify(changed func(types.UID)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed = changed
}

// Answer is a pod's allocation.
type Answer struct {
	// Pod is the pod with its allocated resources: the sync uses this one.
	Pod *v1.Pod
	// Waits is why the requested resources are not allocated, nil if they are.
	Waits *Verdict
	// NextTry is the time of the next call, zero for never.
	NextTry time.Time
}

// Allocate returns a pod's allocation. If the pod's request has changed, it decides about it now, after the pending
// resizes that precede it. When Allocate returns, an accepted allocation is in its file. After an error nothing has
// changed, and the caller must retry.
func (a *Allocator) Allocate(_ context.Context, pod *v1.Pod) (Answer, error) {
	if pod == nil {
		return Answer{}, errors.New("resize: no pod was passed to Allocate")
	}
	a.mu.Lock()
	defer a.unlock(pod.UID)
	err := a.load()
	if err == nil {
		err = a.know(pod)
	}
	if err == nil {
		err = a.settle(pod.UID)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("resize: %w", err)
	}
	return a.answer(a.pods[pod.UID]), nil
}

// unlock ends a call for a pod, and calls changed for the other pods whose resize was accepted.
func (a *Allocator) unlock(pod types.UID) {
	tell, changed := a.changed, a.accepted
	a.accepted = nil
	a.mu.Unlock()
	for _, uid := range changed {
		if tell != nil && uid != pod {
			tell(uid)
		}
	}
}

// know records a pod. A new pod is allocated its requests. A pod whose file is lost is allocated its reported
// allocation.
func (a *Allocator) know(pod *v1.Pod) error {
	e := a.pods[pod.UID]
	if e == nil || e.reserved {
		e = &entry{pod: pod, allocated: reported(pod)}
		if err := a.save(pod.UID, e); err != nil {
			return err
		}
		a.pods[pod.UID] = e
	}
	e.pod, e.requests = pod, nil
	e.ask(time.Now())
	return nil
}

func (a *Allocator) answer(e *entry) Answer {
	answer := Answer{Pod: e.allocated.applyTo(e.pod)}
	if e.since.IsZero() {
		return answer
	}
	answer.Waits = new(e.verdict)
	if e.verdict.Outcome != Infeasible {
		answer.NextTry = time.Now().Add(retryInterval)
	}
	return answer
}

// Allocated returns the pod with its allocated resources, without a new decision. A new pod is
// allocated its requests. Unreadable files count as missing here, and are an error of
// [Allocator.Allocate].
func (a *Allocator) Allocated(pod *v1.Pod) *v1.Pod {
	if pod == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.load(); err != nil {
		a.config.Log.Error(err, "The allocations of pods cannot be read yet")
	}
	return a.allocatedNow(pod)
}

func (a *Allocator) allocatedNow(pod *v1.Pod) *v1.Pod {
	if e := a.pods[pod.UID]; e != nil {
		return e.allocated.applyTo(pod)
	}
	return reported(pod).applyTo(pod)
}

// Reserve counts a new pod from now on, if fits returns true; allocated returns other pods as
// Allocated does. No resize is accepted in between, so that it cannot take the resources of a pod
// that was admitted and not synced yet. fits must return soon, and must not call the Allocator. It
// is not called for a pod that is counted already. Without a pod or fits, Reserve returns false.
func (a *Allocator) Reserve(pod *v1.Pod, fits func(allocated func(*v1.Pod) *v1.Pod) bool) bool {
	if pod == nil || fits == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.load(); err != nil {
		a.config.Log.Error(err, "The allocations of pods cannot be read yet")
	}
	if a.pods[pod.UID] != nil {
		return true
	}
	if !fits(a.allocatedNow) {
		return false
	}
	a.pods[pod.UID] = &entry{pod: pod, allocated: reported(pod), reserved: true}
	return true
}

// RemovePod frees the allocation of a pod that does not run. It succeeds if the pod has none.
func (a *Allocator) RemovePod(_ context.Context, uid types.UID) error {
	a.mu.Lock()
	defer a.unlock(uid)
	delete(a.pods, uid)
	return errors.Join(a.files.Remove(uid), a.files.RemoveAside(uid), a.settle(uid))
}

// load reads an earlier agent's files, all or none.
func (a *Allocator) load() error {
	if a.loaded {
		return nil
	}
	uids, err := a.files.List()
	if err != nil {
		return err
	}
	read := map[types.UID]*entry{}
	for _, uid := range uids {
		e, err := a.read(uid)
		if err != nil {
			return err
		}
		if e != nil {
			read[uid] = e
		}
	}
	a.loaded, a.pods = true, read
	return nil
}

// read reads a pod's file. An invalid one is set aside, and counts as missing.
func (a *Allocator) read(uid types.UID) (*entry, error) {
	var s stored
	err := a.files.ReadJSON(uid, &s)
	if err == nil && s.Version < storedVersion {
		err = fmt.Errorf("%w: it has no version", podfile.ErrDamaged)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, podfile.ErrDamaged):
		a.config.Log.Error(err, "The file with the allocation of a pod is damaged; the status of the pod is used instead", "podUID", uid, "version", s.Version)
		return nil, a.files.SetAside(uid)
	case err != nil:
		return nil, err
	}
	return &entry{allocated: s.Containers, requests: s.Requests}, nil
}

// save writes a pod's allocation.
func (a *Allocator) save(uid types.UID, e *entry) error {
	requests := v1.ResourceList{}
	allocated := e.allocated.applyTo(e.pod)
	for _, name := range names() {
		requests[name] = resources.Requested(allocated, name)
	}
	return a.files.ReplaceJSON(uid, stored{storedVersion, e.allocated.of(e.pod), requests}, true)
}

package resize

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/base/podfile"
)

// Config is what an Allocator is made of. State is required.
type Config struct {
	// State is a directory, an absolute path, with a file for each pod that says what it
	// is allotted. It has to outlive the agent, or what waits is taken as accepted.
	State string
	// Allocatable is what the node can give to pods. Of what is not there it has enough.
	Allocatable v1.ResourceList
	// Accept decides in place of Decide.
	Accept Accepter
	// Retry is how often what waits is tried again if nothing was given back meanwhile:
	// an Accepter may know of more. Default 1 min.
	Retry time.Duration
	// Log gets a line for each change that is accepted. Default silent.
	Log logr.Logger
}

// An Accepter decides on changes. It must return soon, and write to nothing of the
// request. It is called for one change at a time.
type Accepter interface {
	// Accept says what becomes of a change.
	Accept(r Request) Verdict
}

// AccepterFunc is a function that is an [Accepter].
type AccepterFunc func(r Request) Verdict

// Accept calls f.
func (f AccepterFunc) Accept(r Request) Verdict { return f(r) }

// An Allocator remembers what pods are allotted. Its methods may be called
// concurrently.
type Allocator struct {
	config Config
	files  podfile.Dir

	mu sync.Mutex
	// loaded is set once the files of the agent before were read.
	loaded bool
	pods   map[types.UID]*entry
	// changed is told of pods that were allotted what they had waited for: those of
	// accepted, once mu is not held any more.
	changed  func(types.UID)
	accepted []types.UID
}

// entry is one pod.
type entry struct {
	// pod is the pod as it is to be, nil for one that only its file tells of.
	pod      *v1.Pod
	allotted Allotment
	// requests are those of the pod as it is allotted.
	requests v1.ResourceList
	// since is when it has asked for what it waits for, zero if it does not, asked is
	// that, and verdict what came of it last.
	since   time.Time
	asked   Allotment
	verdict Verdict
	// reserved is set until the first Allot of a pod, before which it has no file.
	reserved bool
}

// storedVersion is that of the format of files. The first ones had none.
const storedVersion = 1

// stored is the content of a file. Of a newer version what has these names is read.
type stored struct {
	Version    int             `json:"version"`
	Containers Allotment       `json:"containers"`
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
	if c.Retry < 0 {
		return nil, fmt.Errorf("resize: Config.Retry is %v, want 0 or more", c.Retry)
	}
	c.Retry = cmp.Or(c.Retry, time.Minute)
	if c.Accept == nil {
		c.Accept = AccepterFunc(Decide)
	}
	return &Allocator{config: c, files: podfile.Dir(c.State), pods: map[types.UID]*entry{}}, nil
}

// Notify says who is to be told of pods that were allotted what they had waited for
// while another pod was worked on. A loop.Loop does that for its syncpod.Extensions.Allocations.
func (a *Allocator) Notify(changed func(types.UID)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed = changed
}

// Answer is what a pod is allotted.
type Answer struct {
	// Pod is the pod as it is allotted: the work on it is done for that one.
	Pod *v1.Pod
	// Waits is why it is not allotted what it asks for, nil if it is.
	Waits *Verdict
	// NextTry is when to ask again, zero for never.
	NextTry time.Time
}

// Allot returns what a pod is allotted. If it asks for something else than before, that is
// decided now, after what comes before it in [Order]. What was accepted is in its file
// when Allot returns; on an error nothing has changed, and it is to be called again.
func (a *Allocator) Allot(_ context.Context, pod *v1.Pod) (Answer, error) {
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

// unlock ends a call for a pod, and tells of the others that were changed by it.
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

// know takes note of a pod. One that is new is allotted what it asks for, and one of which
// the file is lost what was reported of it.
func (a *Allocator) know(pod *v1.Pod) error {
	e := a.pods[pod.UID]
	if e == nil || e.reserved {
		e = &entry{pod: pod, allotted: reported(pod)}
		if err := a.save(pod.UID, e); err != nil {
			return err
		}
		a.pods[pod.UID] = e
	}
	e.pod = pod
	e.ask(time.Now())
	return nil
}

func (a *Allocator) answer(e *entry) Answer {
	answer := Answer{Pod: e.allotted.Apply(e.pod)}
	if e.since.IsZero() {
		return answer
	}
	answer.Waits = new(e.verdict)
	if e.verdict.Outcome != Infeasible {
		answer.NextTry = time.Now().Add(a.config.Retry)
	}
	return answer
}

// Allotted returns a pod as it is allotted by now, and decides nothing. One that is new is
// allotted what it asks for. Files that cannot be read count as none here, and are an
// error of [Allocator.Allot].
func (a *Allocator) Allotted(pod *v1.Pod) *v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.load(); err != nil {
		a.config.Log.Error(err, "what pods are allotted cannot be read yet")
	}
	return a.allottedNow(pod)
}

func (a *Allocator) allottedNow(pod *v1.Pod) *v1.Pod {
	if e := a.pods[pod.UID]; e != nil {
		return e.allotted.Apply(pod)
	}
	return reported(pod).Apply(pod)
}

// Reserve counts a new pod from now on, if fits says that it has room beside the others; allotted
// returns those as Allotted does. No change is accepted between the two, so that a resize cannot
// take the room of a pod that was admitted and not worked on yet. fits must return soon, and not
// call the Allocator. It is not called for a pod that is counted already.
func (a *Allocator) Reserve(pod *v1.Pod, fits func(allotted func(*v1.Pod) *v1.Pod) bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.load(); err != nil {
		a.config.Log.Error(err, "what pods are allotted cannot be read yet")
	}
	if a.pods[pod.UID] != nil {
		return true
	}
	if !fits(a.allottedNow) {
		return false
	}
	a.pods[pod.UID] = &entry{pod: pod, allotted: reported(pod), reserved: true}
	return true
}

// CleanPod gives back what a pod was allotted that has stopped for good.
func (a *Allocator) CleanPod(ctx context.Context, pod *v1.Pod) error {
	return a.RemovePod(ctx, pod.UID)
}

// RemovePod is CleanPod for a pod of which no more than its UID is known.
func (a *Allocator) RemovePod(_ context.Context, uid types.UID) error {
	a.mu.Lock()
	defer a.unlock(uid)
	delete(a.pods, uid)
	return errors.Join(a.files.Remove(uid), a.files.RemoveAside(uid), a.settle(uid))
}

// load reads what the agent before has written, all or nothing.
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

// read reads the file of a pod. One that cannot be understood is set aside, and counts as
// none.
func (a *Allocator) read(uid types.UID) (*entry, error) {
	text, err := a.files.Read(uid)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s stored
	if err := json.Unmarshal(text, &s); err != nil {
		a.config.Log.Error(err, "what a pod is allotted cannot be understood, and goes by its status", "podUID", uid, "version", s.Version)
		return nil, a.files.SetAside(uid)
	}
	return &entry{allotted: s.Containers, requests: s.Requests}, nil
}

// save writes what a pod is allotted.
func (a *Allocator) save(uid types.UID, e *entry) error {
	requests := v1.ResourceList{}
	allotted := e.allotted.Apply(e.pod)
	for _, name := range names() {
		requests[name] = requested(allotted, name)
	}
	text, err := json.Marshal(stored{storedVersion, e.allotted.of(e.pod), requests})
	if err != nil {
		return err
	}
	e.requests = requests
	return a.files.Replace(uid, text, true)
}

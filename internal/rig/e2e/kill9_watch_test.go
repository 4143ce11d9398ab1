//go:build linux

package e2e

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
)

// watcher repeatedly reads the runtime, with its own client, and compares the state with the agent's
// statuses.
type watcher struct {
	t      *testing.T
	client *cri.Client
	run    string

	mu       sync.Mutex
	subjects map[string]*subject // by generation
	// down means that the runtime may be unavailable. starting means that it may be unavailable until its first answer.
	down, starting bool
	died           int64 // the last kill of the agent or the runtime, in Unix nanoseconds
	sandboxes      map[string]sandboxSeen
	seen           map[string]*containerSeen
	latest         []*containerSeen // at the last read
	ready          map[string]int   // ready sandboxes by generation, at the last read
	told           map[string]bool
}

type sandboxSeen struct{ uid, generation string }

// containerSeen is everything that was observed about a container.
type containerSeen struct {
	id, sandbox, uid, generation, name string
	attempt                            uint32
	created                            int64
	state                              runtimeapi.ContainerState
	ran                                bool
	// exit is its exit code, -1 as long as it is unknown.
	exit int
	// unknown means that the runtime has reported an unknown state.
	unknown bool
	// older means that it existed when the agent or the runtime was killed.
	older bool
}

// lost reports whether the runtime has lost a container while it was down itself: it reports an unknown state, or an exit
// with the code that it uses for unknown exits. Such a run may have to be repeated, or its pod has failed.
func (c *containerSeen) lost() bool { return c.unknown || c.exit == 255 }

// interrupted reports whether the agent or the runtime was killed before the runtime reported that a container ran. Its
// process may have started nevertheless. A runtime that was killed has forgotten the start, and the container is CREATED. A
// runtime whose client was killed aborts the start, and kills the process.
func (c *containerSeen) interrupted() bool { return c.older && !c.ran }

func (c *containerSeen) String() string {
	return fmt.Sprintf("container %.8s (%s of pod %s, attempt %d, sandbox %.8s)", c.id, c.name, c.generation, c.attempt, c.sandbox)
}

const lookInterval = 50 * time.Millisecond

func newWatcher(t *testing.T, client *cri.Client, run string) *watcher {
	w := &watcher{
		t: t, client: client, run: run, subjects: map[string]*subject{}, sandboxes: map[string]sandboxSeen{},
		seen: map[string]*containerSeen{}, told: map[string]bool{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var looking sync.WaitGroup
	looking.Go(func() { w.watch(ctx) })
	t.Cleanup(func() {
		cancel()
		looking.Wait()
	})
	return w
}

func (w *watcher) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if err := w.look(ctx); err != nil && ctx.Err() == nil && !w.mayBeDown() {
			w.t.Errorf("the runtime does not answer: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookInterval):
		}
	}
}

func (w *watcher) mayBeDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.down
}

func (w *watcher) expectDown(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down, w.starting = w.down || down, !down
}

// enterDeath enters that agent or runtime were killed just now.
func (w *watcher) enterDeath() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.died = time.Now().UnixNano()
	for _, c := range w.latest {
		c.older = true
	}
}

// change changes the desired state.
func (w *watcher) change(f func(map[string]*subject)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.subjects)
}

// look inspects the runtime once. It lists containers before sandboxes, so that the containers of a new sandbox are not
// attributed to another pod.
func (w *watcher) look(ctx context.Context) error {
	containers, err := w.client.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return err
	}
	sandboxes, err := w.client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{labelRun: w.run}},
	})
	if err != nil {
		return err
	}
	exits, err := w.exits(ctx, containers.Containers)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.starting {
		w.down, w.starting = false, false
	}
	w.enterSandboxes(sandboxes.Items)
	w.enterContainers(containers.Containers, exits)
	return nil
}

// exits returns the container exits.
func (w *watcher) exits(ctx context.Context, listed []*runtimeapi.Container) (map[string]int, error) {
	exits := map[string]int{}
	for _, c := range listed {
		w.mu.Lock()
		known := w.seen[c.Id]
		ours := w.sandboxes[c.PodSandboxId].uid != ""
		w.mu.Unlock()
		if !ours || c.State != runtimeapi.ContainerState_CONTAINER_EXITED || known != nil && known.exit >= 0 {
			continue
		}
		r, err := w.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.Id})
		if err := cri.IgnoreNotFound(err); err != nil {
			return nil, err
		}
		if r.GetStatus().GetStartedAt() > 0 {
			exits[c.Id] = int(r.Status.ExitCode)
		}
	}
	return exits, nil
}

func (w *watcher) enterSandboxes(listed []*runtimeapi.PodSandbox) {
	ready := map[string]int{}
	for _, s := range listed {
		generation := s.Labels[labelGeneration]
		w.sandboxes[s.Id] = sandboxSeen{s.Metadata.Uid, generation}
		if s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
			ready[generation]++
		}
	}
	w.ready = ready
	for generation, n := range ready {
		if n > 1 {
			w.wrong("%d sandboxes of pod %s are ready", n, generation)
		}
	}
}

func (w *watcher) enterContainers(listed []*runtimeapi.Container, exits map[string]int) {
	before := w.latest
	w.latest = nil
	for _, c := range listed {
		if of, ours := w.sandboxes[c.PodSandboxId]; ours {
			w.latest = append(w.latest, w.enter(c, of, exits))
		}
	}
	w.checkGone(before)
	w.checkDoubles()
}

// enter records the observation of one container.
func (w *watcher) enter(c *runtimeapi.Container, of sandboxSeen, exits map[string]int) *containerSeen {
	known := w.seen[c.Id]
	if known == nil {
		known = &containerSeen{
			id: c.Id, sandbox: c.PodSandboxId, uid: of.uid, generation: of.generation, name: c.Metadata.Name,
			attempt: c.Metadata.Attempt, created: c.CreatedAt, exit: -1,
		}
		w.seen[c.Id] = known
		w.checkNew(known)
	}
	if known.state == runtimeapi.ContainerState_CONTAINER_RUNNING && c.State != known.state {
		w.checkStopped(known, c.State.String())
	}
	known.state = c.State
	known.older = known.older || c.CreatedAt < w.died
	known.unknown = known.unknown || c.State == runtimeapi.ContainerState_CONTAINER_UNKNOWN
	code, ended := exits[c.Id]
	if ended {
		known.exit = code
	}
	if first := !known.ran; ended || c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
		known.ran = true
		if first {
			w.checkStarts(known)
		}
	}
	return known
}

// wrong reports a violation once.
func (w *watcher) wrong(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !w.told[text] {
		w.told[text] = true
		w.t.Errorf("%s %s", time.Now().Format("15:04:05.000"), text)
	}
}

// accuse reports a violation that names its pods.
func (w *watcher) accuse(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong(format, args...)
}

// accusations returns all reported violations.
func (w *watcher) accusations() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.told))
}

var podNamed = regexp.MustCompile(`\bpod (\d+)`)

// accused returns the UIDs of the pods that something is wrong with, by generation,
// each followed by its sandboxes.
func (w *watcher) accused() map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := map[string][]string{}
	for text := range w.told {
		for _, match := range podNamed.FindAllStringSubmatch(text, -1) {
			ids[match[1]] = []string{""}
		}
	}
	for id, s := range w.sandboxes {
		if of := ids[s.generation]; of != nil {
			of[0] = s.uid
			ids[s.generation] = append(of, id)
		}
	}
	return ids
}

// others returns the other observed instances of the same container of the same pod, in the order of creation.
func (w *watcher) others(c *containerSeen) []*containerSeen {
	var all []*containerSeen
	for _, other := range w.seen {
		if other != c && other.uid == c.uid && other.name == c.name {
			all = append(all, other)
		}
	}
	slices.SortFunc(all, func(a, b *containerSeen) int { return int(a.attempt) - int(b.attempt) })
	return all
}

// uids returns the UIDs that pods have, by generation.
func (w *watcher) uids() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	uids := map[string]string{}
	for s := range maps.Values(w.sandboxes) {
		uids[s.generation] = s.uid
	}
	return uids
}

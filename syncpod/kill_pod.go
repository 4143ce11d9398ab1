package syncpod

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// podKill is the end of all there is of a pod.
type podKill struct {
	pod      *v1.Pod // nil if no spec is known
	memory   *podMemory
	status   *runtime.PodStatus
	deadline time.Time
}

// killPod stops every container that is or may be alive, in spec or not, and
// then every sandbox. All is tried, and what failed is joined. A sandbox with a
// container that could not be told to stop, and has time left, is not stopped: the
// container would be killed with it.
func (s *stopper) killPod(ctx context.Context, p podKill) error {
	containers, sandboxes := s.killAll(ctx, p)
	return errors.Join(containers, sandboxes)
}

// errSpared says that a sandbox goes on because a container in it could not be told to
// stop yet.
var errSpared = errors.New("the sandbox is not stopped before its containers")

// killAll tells what became of the containers, and of the sandboxes: one that was
// not stopped is an error.
func (s *stopper) killAll(ctx context.Context, p podKill) (containers, sandboxes error) {
	stopped, spared, err := s.killContainers(ctx, p)
	if ctx.Err() != nil {
		return err, ctx.Err()
	}
	sandboxes = s.stopSandboxes(ctx, p.status, func(id string) bool { return stopped[id] || spared[id] })
	if len(spared) > 0 {
		sandboxes = errors.Join(errSpared, sandboxes)
	}
	return err, sandboxes
}

// killContainers returns the sandboxes that were stopped because a container in them did not stop,
// and those of containers that could not be stopped and have time left.
func (s *stopper) killContainers(ctx context.Context, p podKill) (stopped, spared map[string]bool, err error) {
	var kills []kill
	for i := range p.status.Containers {
		if c := &p.status.Containers[i]; c.Live() {
			kills = append(kills, p.killOf(c))
		}
	}
	s.findHandlers(ctx, p, kills)
	turns := newTurns(kills)
	errs := make([]error, len(kills))
	var group sync.WaitGroup
	for i, k := range kills {
		group.Go(func() {
			k.turn = turns.of(i)
			err := s.killContainer(ctx, k)
			if err != nil {
				errs[i] = fmt.Errorf("container %s: %w", k.status.Name, err)
			}
			turns.done(i, err == nil)
		})
	}
	group.Wait()
	turns.wait()
	stopped, spared = map[string]bool{}, map[string]bool{}
	for i, k := range kills {
		if *k.sandboxStopped {
			stopped[k.sandbox] = true
		}
		if errs[i] != nil && time.Now().Before(k.deadline) {
			spared[k.sandbox] = true
		}
	}
	return stopped, spared, errors.Join(errs...)
}

func (p podKill) killOf(c *runtime.ContainerStatus) kill {
	k := kill{
		pod: p.pod, memory: p.memory, status: c, deadline: p.deadline,
		message: actions.KillMessage(c.Name, actions.ReasonNone, false), sandbox: c.SandboxID, sandboxStopped: new(bool), podIP: primary(p.status.IPs()),
	}
	if p.pod == nil {
		return k
	}
	if ref, ok := actions.FindContainer(p.pod, c.Name); ok {
		k.ref, k.spec = ref, ref.Spec(p.pod)
	}
	return k
}

// stopSandboxes stops all sandboxes, those that have stopped by themselves, too:
// their network may still be there (containerd #5768).
func (s *stopper) stopSandboxes(ctx context.Context, status *runtime.PodStatus, passedOver func(id string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.StopTimeout)
	defer cancel()
	errs := make([]error, len(status.Sandboxes))
	var group sync.WaitGroup
	for i := range status.Sandboxes {
		if passedOver(status.Sandboxes[i].ID) {
			continue
		}
		group.Go(func() { errs[i] = s.config.Deps.Sandboxes.Stop(ctx, status.Sandboxes[i].ID) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// turns is the order in which containers stop: a sidecar after all that are no
// sidecars, and after the sidecars that come later in the spec (KEP-753).
type turns struct {
	rank  []int // by kill; those of a higher rank stop first
	ended []chan struct{}
	// stopped are the kills that have ended well. Those who wait read it when ended is closed.
	stopped []bool
	// waits get one answer: whether it is the turn of a kill, or one before it has failed.
	waits []chan bool
	group sync.WaitGroup
}

// notSidecar is the rank of what waits for nobody.
const notSidecar = 1 << 30

func newTurns(kills []kill) *turns {
	t := &turns{stopped: make([]bool, len(kills))}
	for _, k := range kills {
		rank := notSidecar
		if k.spec != nil && k.ref.Kind == actions.InitContainer && runtime.IsSidecar(k.spec) {
			rank = k.ref.Index
		}
		t.rank = append(t.rank, rank)
		t.ended = append(t.ended, make(chan struct{}))
		t.waits = append(t.waits, make(chan bool, 1))
	}
	for i := range t.rank {
		t.group.Go(func() { t.follow(i) })
	}
	return t
}

// follow answers a kill once all before it have ended.
func (t *turns) follow(i int) {
	all := true
	for j, rank := range t.rank {
		if rank > t.rank[i] {
			<-t.ended[j]
			all = all && t.stopped[j]
		}
	}
	t.waits[i] <- all
}

func (t *turns) of(i int) <-chan bool { return t.waits[i] }

// done ends a kill, with or without success: nobody waits for what nobody stops any
// more.
func (t *turns) done(i int, stopped bool) {
	t.stopped[i] = stopped
	close(t.ended[i])
}

func (t *turns) wait() { t.group.Wait() }

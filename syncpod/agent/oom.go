package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/oom"
	"github.com/podsync/podsync/syncpod/podref"
)

// maxLateKills limits the unknown containers whose kills are postponed. lateKillPauses are the
// pauses before the reporter searches for such a container again: a container may be killed before the agent
// has seen it run.
const maxLateKills = 16

func lateKillPauses() []time.Duration {
	return []time.Duration{time.Second, 4 * time.Second, 10 * time.Second}
}

// killInterval is the minimum time between two reports about one container, or about the node, because a
// container can make the kernel kill its processes endlessly.
const killInterval = time.Minute

// oomReporter reports processes that the kernel has killed for lack of memory.
type oomReporter struct {
	watcher oomWatcher
	cache   *runtime.Cache
	node    nodeEvents
	log     logr.Logger
	host    loop.Host // set by Run
	// tasks are the goroutines of late kills and of intervals.
	tasks sync.WaitGroup

	mu sync.Mutex
	// late has the number of kills of each unknown container, by its ID.
	late map[string]int
	// recent has, for each report within killInterval, the number of kills that it did not report.
	recent map[killSubject]int
}

// killSubject identifies a report's subject: a container, or the node if the UID is empty. Kills because of a
// limit and kills because the node ran out of memory are reported separately.
type killSubject struct {
	uid       types.UID
	container string
	system    bool
}

// An oomWatcher calls a function for each process that the kernel kills because memory ran out, one call at a time,
// until ctx ends. An *oom.Watcher implements it.
type oomWatcher interface {
	Run(ctx context.Context, tell func(oom.Kill)) error
}

// makeOOMReporter returns nil if NoOOMEvents is set.
func (c *Config) makeOOMReporter() *oomReporter {
	if c.NoOOMEvents {
		return nil
	}
	if c.oom == nil {
		c.oom = &oom.Watcher{}
	}
	return &oomReporter{
		watcher: c.oom, cache: c.Cache, node: nodeEvents(c.NodeName), log: c.Log, late: map[string]int{}, recent: map[killSubject]int{},
	}
}

// Run reports killed processes until ctx ends.
func (r *oomReporter) Run(ctx context.Context, host loop.Host) error {
	r.host = host
	defer r.tasks.Wait()
	err := r.watcher.Run(ctx, func(k oom.Kill) {
		if k.System() {
			r.report(ctx, nil, "", k, 1)
		}
		if len(k.Containers()) > 0 && !r.reportContainer(ctx, k, 1, false) {
			r.postpone(ctx, k)
		}
	})
	if err != nil && ctx.Err() == nil {
		r.log.Error(err, "OOM kills are not reported")
	}
	return nil
}

// reportContainer reports kills in a container in a pod; k is the first of them. It returns false if the
// container is unknown. If only the outermost container is unknown, the process may be in that container,
// which the agent has not seen yet, or the whole node may run in that container. If nested is set,
// reportContainer assumes the latter.
func (r *oomReporter) reportContainer(ctx context.Context, k oom.Kill, kills int, nested bool) bool {
	pod, container, id := r.containerOf(k)
	if pod == nil || !nested && id != k.Containers()[0] {
		return false
	}
	r.report(ctx, pod, container, k, kills)
	return true
}

// postpone reports a kill when its container becomes known, if that is soon. All kills in one container
// count as one of maxLateKills.
func (r *oomReporter) postpone(ctx context.Context, k oom.Kill) {
	_, _, id := r.containerOf(k)
	id = cmp.Or(id, k.Containers()[0])
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, waits := r.late[id]; !waits {
		if len(r.late) == maxLateKills {
			return
		}
		r.tasks.Go(func() { r.reportLate(ctx, id, k) })
	}
	r.late[id]++
}

func (r *oomReporter) reportLate(ctx context.Context, id string, k oom.Kill) {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.late, id)
	}()
	for i, pause := range lateKillPauses() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		r.mu.Lock()
		kills := r.late[id]
		r.mu.Unlock()
		if r.reportContainer(ctx, k, kills, i > 0) {
			return
		}
	}
}

// report reports kills in a container, or on the node if pod is nil; k is the first of them. For killInterval
// after a report it only counts further kills, and reports their number at the interval's end.
func (r *oomReporter) report(ctx context.Context, pod *v1.Pod, container string, k oom.Kill, kills int) {
	subject := killSubject{container: container, system: k.System()}
	if pod != nil {
		subject.uid = pod.UID
	}
	r.mu.Lock()
	counted, recent := r.recent[subject]
	if recent {
		counted += kills
	} else {
		counted = kills - 1
	}
	r.recent[subject] = counted
	r.mu.Unlock()
	if recent {
		return
	}
	if pod == nil {
		r.sayNode(fmt.Sprintf("System OOM encountered, victim process: %s, pid: %d", k.Process, k.PID))
	} else {
		r.sayContainer(pod, container, k.System(), fmt.Sprintf("Process %s, PID %d, of container %s was killed", k.Process, k.PID, container))
	}
	r.tasks.Go(func() {
		for further := r.further(ctx, subject); further > 0; further = r.further(ctx, subject) {
			if pod == nil {
				r.sayNode(fmt.Sprintf("System OOM encountered, %d further victim processes within %v", further, killInterval))
			} else {
				r.sayContainer(pod, container, subject.system, fmt.Sprintf("%d further processes of container %s were killed within %v", further, container, killInterval))
			}
		}
	})
}

// further waits until killInterval has passed or ctx ends, and returns the number of kills since the last report. If
// it returns 0, the next kill is reported immediately.
func (r *oomReporter) further(ctx context.Context, subject killSubject) int {
	timer := time.NewTimer(killInterval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	kills := r.recent[subject]
	if r.recent[subject] = 0; kills == 0 {
		delete(r.recent, subject)
	}
	return kills
}

func (r *oomReporter) sayNode(message string) {
	r.log.Info("the node is out of memory", "message", message)
	r.node.warn(r.host.Events(), syncpod.EventSystemOOM, message)
}

func (r *oomReporter) sayContainer(pod *v1.Pod, container string, system bool, message string) {
	why := "the memory limit was reached"
	if system {
		why = "the node is out of memory"
	}
	podref.Log(r.log, pod).Info("killed for lack of memory", "container", container, "message", message, "reason", why)
	r.host.Events().Eventf(podref.ContainerNamed(pod, container), v1.EventTypeWarning, syncpod.EventOOMKilling, "%s: %s", message, why)
}

// containerOf returns the first container in the cgroup's path that belongs to a pod, with its ID. It returns a nil
// pod if there is none.
func (r *oomReporter) containerOf(k oom.Kill) (pod *v1.Pod, container, id string) {
	ids := k.Containers()
	first := len(ids)
	for _, p := range r.host.Pods() {
		status := statusOf(r.cache, p.Pod.UID)
		if status == nil {
			continue
		}
		for i := range status.Containers {
			c := &status.Containers[i]
			if at := slices.Index(ids[:first], c.ID.ID); at >= 0 {
				first, pod, container, id = at, p.Pod, c.Name, c.ID.ID
			}
		}
	}
	return pod, container, id
}

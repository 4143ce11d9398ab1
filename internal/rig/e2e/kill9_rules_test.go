//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// checkNew checks a new container: its attempt is new, and an init container is not created again after its success. The
// number of an instance that was removed before it was started leaves no trace, and may be used again.
func (w *watcher) checkNew(c *containerSeen) {
	for _, other := range w.others(c) {
		if c.attempt < other.attempt && other.created < c.created || c.attempt == other.attempt && other.ran {
			w.wrong("%v comes after %v", c, other)
		}
		if s := w.subjects[c.generation]; s != nil && s.once[c.name] > 0 && other.exit == 0 && !other.lost() && (other.sandbox == c.sandbox || s.phase != "Running") {
			w.wrong("%v comes after %v had ended well", c, other)
		}
	}
}

// checkStarts checks a started container: one that ends by itself is not started too often in its sandbox, or in its pod if
// the pod does not continue.
func (w *watcher) checkStarts(c *containerSeen) {
	s := w.subjects[c.generation]
	if s == nil || s.once[c.name] == 0 {
		return
	}
	starts := 1
	for _, other := range w.others(c) {
		if other.ran && !other.lost() && (other.sandbox == c.sandbox || s.phase != "Running") {
			starts++
		}
	}
	if starts > s.once[c.name] {
		w.wrong("%v is start %d of it", c, starts)
	}
}

// checkStopped checks a container that ran and no longer runs.
func (w *watcher) checkStopped(c *containerSeen, state string) {
	if s := w.subjects[c.generation]; s != nil && s.wanted && slices.Contains(s.runs, c.name) {
		w.wrong("%v ran and is wanted, and now is %s", c, state)
	}
}

// checkGone checks the containers that existed before and no longer exist.
func (w *watcher) checkGone(before []*containerSeen) {
	for _, c := range before {
		if c.state == runtimeapi.ContainerState_CONTAINER_RUNNING && !slices.Contains(w.latest, c) {
			w.checkStopped(c, "gone")
		}
	}
}

func (w *watcher) checkDoubles() {
	running := map[string]*containerSeen{}
	for _, c := range w.latest {
		if c.state != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		if other := running[c.uid+"/"+c.name]; other != nil {
			w.wrong("%v runs, and so does %v", c, other)
		}
		running[c.uid+"/"+c.name] = c
	}
}

// unsettled returns the differences from the desired state at the end, nil if there are none.
func (w *watcher) unsettled(reported map[string]v1.PodStatus) (errs []string) {
	uids := w.uids()
	w.mu.Lock()
	defer w.mu.Unlock()
	for generation, s := range w.subjects {
		var err error
		if s.wanted {
			err = w.unfinished(s, reported[uids[generation]])
		} else {
			err = w.leftOver(generation)
		}
		if err != nil {
			errs = append(errs, fmt.Sprintf("pod %s (%s, %s): %v", generation, s.file, s.name, err))
		}
	}
	slices.Sort(errs)
	return errs
}

// unfinished returns what a desired pod lacks.
func (w *watcher) unfinished(s *subject, status v1.PodStatus) error {
	for _, name := range s.runs {
		if w.running(s.generation, name) != 1 {
			return fmt.Errorf("%s does not run", name)
		}
	}
	if status.Phase == v1.PodFailed && w.lost(s.generation) {
		return nil
	}
	if string(status.Phase) != s.phase {
		return fmt.Errorf("it is reported as %q, and should be %s; ends %v", status.Phase, s.phase, w.ends(s.generation))
	}
	if len(s.runs) > 0 {
		return nil
	}
	if n := w.ready[s.generation]; n > 0 {
		return fmt.Errorf("it has ended, and %d sandboxes are ready", n)
	}
	end := status.ContainerStatuses[0].State.Terminated
	if end == nil || int(end.ExitCode) != s.exit {
		return fmt.Errorf("its end is reported as %+v", status.ContainerStatuses[0].State)
	}
	return nil
}

// leftOver returns the remains of a removed pod. The remains of an interrupted start may stay: containerd can lose its task,
// and then reports that it has exited, but removes neither it nor its sandbox until containerd is restarted.
func (w *watcher) leftOver(generation string) error {
	if n := w.ready[generation]; n > 0 {
		return fmt.Errorf("it is gone, and %d sandboxes are ready", n)
	}
	for _, c := range w.latest {
		cut := !c.ran && c.state == runtimeapi.ContainerState_CONTAINER_EXITED
		if c.generation == generation && !cut {
			return fmt.Errorf("it is gone, and there is %v", c)
		}
	}
	return nil
}

// lost reports whether the runtime has lost a container of a pod.
func (w *watcher) lost(generation string) bool {
	for _, c := range w.seen {
		if c.generation == generation && c.lost() {
			return true
		}
	}
	return false
}

// ends returns how the pod's containers exited, according to the runtime.
func (w *watcher) ends(generation string) (ends []string) {
	for _, c := range w.seen {
		if c.generation == generation && c.exit >= 0 {
			ends = append(ends, fmt.Sprintf("%v with %d", c, c.exit))
		}
	}
	return ends
}

// untold counts the instances of a container that may have run without the runtime, or
// the agent, knowing how that ended.
func (w *watcher) untold(generation, name string) (n int) {
	for _, c := range w.seen {
		if c.generation == generation && c.name == name && (c.lost() || c.interrupted()) {
			n++
		}
	}
	return n
}

func (w *watcher) running(generation, name string) (n int) {
	for _, c := range w.latest {
		if c.generation == generation && c.name == name && c.state == runtimeapi.ContainerState_CONTAINER_RUNNING {
			n++
		}
	}
	return n
}

// checkTruth checks the files that the containers themselves have written: how often each was started, whatever the runtime
// reports.
func (w *watcher) checkTruth(dir, mark string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for generation, s := range w.subjects {
		text, _ := os.ReadFile(filepath.Join(dir, generation)) // none was started yet
		starts := map[string]int{}
		for _, name := range strings.Fields(string(text)) {
			starts[name]++
		}
		for name, n := range starts {
			if container := filepath.Base(name); s.phase != "Running" && n > s.once[container]+w.untold(generation, container) {
				w.wrong("pod %s: container %s was started %d times", generation, container, n)
			}
		}
	}
	for name, n := range processes(mark) {
		if n > 1 {
			w.wrong("%d processes are %s", n, name)
		}
	}
}

// checkHooks checks the preStop handlers: a handler that has ended does not run again, unless the agent that requested it was
// killed before it could record the end. A runtime may take any time to begin a handler that was requested by an agent that
// was then killed. So all kills since the pod's termination count, each for one run more.
func (w *watcher) checkHooks(dir string, kills []time.Duration) (ran int) {
	files, _ := filepath.Glob(filepath.Join(dir, "*-hook"))
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(w.t)
		generation := strings.TrimSuffix(filepath.Base(file), "-hook")
		stop := w.subjects[generation].unwanted
		unused := slices.DeleteFunc(slices.Clone(kills), func(k time.Duration) bool { return k < stop })
		var ended time.Duration
		for line := range strings.Lines(string(text)) {
			at, what, _ := strings.Cut(strings.TrimSpace(line), " ")
			t, err := time.ParseDuration(at + "s")
			if err != nil {
				w.t.Fatalf("%s: %q", file, line)
			}
			if what == "end" {
				ended = t
				ran++
				continue
			}
			if ended == 0 {
				continue
			}
			if len(unused) == 0 || unused[0] >= min(t, ended+noteTime) {
				w.wrong("the preStop handler of pod %s runs again, which was to stop at %v, with the agent killed at %v:\n%s", generation, stop, kills, text)
				break
			}
			unused = unused[1:]
		}
	}
	return ran
}

// noteTime is how long the runtime may take to report the end of a handler, and the agent to record it, on a busy
// machine.
const noteTime = time.Second

// uptime returns the time of the clock that the handlers use.
func uptime() time.Duration {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0
	}
	t, _ := time.ParseDuration(strings.Fields(string(text))[0] + "s")
	return t
}

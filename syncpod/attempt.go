package syncpod

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/memory"
)

// attempt returns the number of a container's next instance: the highest of those that the plan, the logs and
// memory require. Each of them may lack some instances. None depends on a clock (kubernetes #134153).
func (st creating) attempt(step startStep) (uint32, error) {
	name := step.Container.Name
	if err := st.scanLogs(name); err != nil {
		return 0, err
	}
	return ask(st.memory, func(p *memory.Pod) uint32 { return p.Containers.Attempt(name, step.Attempt) }), nil
}

// scanLogs reads, once, which attempts of a container have logs.
func (o *observedPod) scanLogs(name string) error {
	if ask(o.memory, func(p *memory.Pod) bool { return p.Containers.LogsScanned(name) }) {
		return nil
	}
	dir, err := sandbox.BuildPodLogsDirectory(o.config.Node.LogsRoot, o.pod)
	if err != nil {
		return err
	}
	last, ok, err := o.config.Parts.Logs.LastAttempt(dir, name)
	if err != nil {
		return err
	}
	o.memory.do(func(p *memory.Pod) { p.Containers.Scanned(name, last, ok) })
	return nil
}

// warnOfSecondRun records a warning that a container that must run once is started although it may already
// have run: an earlier start was requested, and its outcome is unknown (kubernetes #51142).
func (st creating) warnOfSecondRun() {
	name := st.spec.Name
	if st.status.Latest(name) != nil || !st.memory.everStarted(name) {
		return
	}
	if again, _ := actions.RestartsAfter(st.pod, st.spec, 0); again {
		return
	}
	st.event(v1.EventTypeWarning, EventContainerRecordLost, "Container %s may have run before and runs again: the container runtime has lost what became of it", name)
}

// logFiles are the logs of containers in files, as runtimes write them: <container>/<attempt>.log, with a suffix after
// a rotation.
type logFiles struct{ podLogs }

// MakeDirectory creates <dir>/<container>.
func (logFiles) MakeDirectory(dir, container string) error {
	if err := hostfs.Element("container name", container); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Join(dir, container), 0o755)
}

// LastAttempt reads the directory of the container's logs.
func (logFiles) LastAttempt(dir, container string) (last uint32, ok bool, err error) {
	if err := hostfs.Element("container name", container); err != nil {
		return 0, false, err
	}
	entries, err := os.ReadDir(filepath.Join(dir, container))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	for _, e := range entries {
		number, rest, _ := strings.Cut(e.Name(), ".")
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil || rest != "log" && !strings.HasPrefix(rest, "log.") {
			continue
		}
		last, ok = max(last, uint32(n)), true
	}
	return last, ok, nil
}

package start

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/syncpod/memory"
)

// Logs reports the attempts that have left a log, so that a number is not used twice after the runtime has lost its
// containers (kubernetes #99748).
type Logs interface {
	// MakeDirectory creates the directory of a container's logs below the pod's log directory dir. Runtimes require it.
	MakeDirectory(dir, container string) error
	// LastAttempt returns the highest attempt with a log below the pod's log directory dir, and whether there is one.
	LastAttempt(dir, container string) (attempt uint32, ok bool, err error)
}

// ScanLogs reads, once, which attempts of a container have logs below the pod's log directory dir. Both m and logs are
// required.
func ScanLogs(m Memory, logs Logs, dir, container string) error {
	if m == nil || logs == nil {
		return errors.New("start: ScanLogs needs a Memory and Logs")
	}
	var known bool
	if m.Do(func(p *memory.Pod) { known = p.Containers.LogsScanned(container) }); known {
		return nil
	}
	last, ok, err := logs.LastAttempt(dir, container)
	if err != nil {
		return err
	}
	m.Do(func(p *memory.Pod) { p.Containers.Scanned(container, last, ok) })
	return nil
}

// LogFiles are container logs in files, as runtimes write them: <container>/<attempt>.log, with a suffix after a
// rotation.
type LogFiles struct{}

// MakeDirectory creates <dir>/<container>.
func (LogFiles) MakeDirectory(dir, container string) error {
	if err := hostfs.Element("container name", container); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Join(dir, container), 0o755)
}

// LastAttempt reads the container's log directory.
func (LogFiles) LastAttempt(dir, container string) (last uint32, ok bool, err error) {
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

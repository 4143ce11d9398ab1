package syncpod

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/hostfs"
	containerstart "github.com/podsync/podsync/syncpod/container/start"
)

// logFiles are container logs in files, which end with their pods.
type logFiles struct {
	containerstart.LogFiles
	podLogs
}

// maxFileName is the longest name of a file that common file systems take.
const maxFileName = 255

// logLinkName returns the link's name to a container's log in /var/log/containers, from which log
// shippers derive the pod and the container: <pod>_<namespace>_<container>-<container ID>.log. If
// that exceeds 255 characters, the part before the ID is truncated, so that the names of two
// containers differ. It returns an error if the name could lead out of the directory, or if the ID
// alone is too long.
func logLinkName(pod *v1.Pod, container, id string) (string, error) {
	if pod == nil {
		return "", errors.New("log link: the pod is nil")
	}
	err := errors.Join(
		hostfs.Element("metadata.name", pod.Name),
		hostfs.Element("metadata.namespace", pod.Namespace),
		hostfs.Element("container name", container),
		hostfs.Element("container ID", id),
	)
	if err != nil {
		return "", fmt.Errorf("log link: %w", err)
	}
	name, suffix := fmt.Sprintf("%s_%s_%s", pod.Name, pod.Namespace, container), "-"+id+".log"
	if len(suffix) > maxFileName {
		return "", fmt.Errorf("log link: the container ID has %d characters", len(id))
	}
	return name[:min(len(name), maxFileName-len(suffix))] + suffix, nil
}

// linkLog creates the link, if links are configured and the log exists. A failure does not affect
// the container.
func (s *Syncer) linkLog(pod containerstart.Pod, container string, started containerstart.Started) {
	if s.config.Node.LogLinks == "" {
		return
	}
	name, err := logLinkName(pod.Spec, container, started.ID.ID)
	if err == nil {
		log := filepath.Join(pod.Sandbox.Config.GetLogDirectory(), container, strconv.FormatUint(uint64(started.Attempt), 10)+".log")
		err = replaceLink(log, filepath.Join(s.config.Node.LogLinks, name))
	}
	if err != nil {
		s.log(pod.Spec).Error(err, "no link to a container's log", "container", container)
	}
}

func replaceLink(target, link string) error {
	if _, err := os.Stat(target); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(target, link)
}

// podLogs removes pod logs, and the links to them. Each directory's name ends with its pod's UID, so the removal
// of a pod needs neither its definition nor a pass that has seen the pod.
type podLogs struct {
	root, links string
	found       *sharedRead[logNames]
}

func newPodLogs(root, links string) podLogs {
	return podLogs{root, links, newSharedRead[logNames]()}
}

// logNames are pod directories, and the links that lead into these, by UID. A pod has one directory, unless a source
// has renamed it.
type logNames struct {
	directories, links map[types.UID][]string
}

// RemovePod removes the directory of a pod's logs and the links that lead into it. It may be called again.
func (l podLogs) RemovePod(_ context.Context, uid types.UID) error {
	if err := hostfs.Element("metadata.uid", string(uid)); err != nil {
		return nil // the pod got no directory
	}
	names, err := l.found.get(l.read)
	return errors.Join(err,
		removeNames(l.links, names.links[uid], (*os.Root).Remove),
		removeNames(l.root, names.directories[uid], (*os.Root).RemoveAll))
}

// read finds the directories and the links of all pods.
func (l podLogs) read() (logNames, error) {
	found := logNames{map[types.UID][]string{}, map[types.UID][]string{}}
	directories := each(l.root, func(_ *os.Root, name string) {
		if uid, ok := podOfLogs(name); ok {
			found.directories[uid] = append(found.directories[uid], name)
		}
	})
	if l.links == "" {
		return found, directories
	}
	return found, errors.Join(directories, each(l.links, func(links *os.Root, name string) {
		to, err := links.Readlink(name)
		if err != nil { // it is no link, or is gone
			return
		}
		rest, inRoot := strings.CutPrefix(to, strings.TrimSuffix(l.root, "/")+"/")
		dir, _, _ := strings.Cut(rest, "/")
		if uid, ok := podOfLogs(dir); ok && inRoot {
			found.links[uid] = append(found.links[uid], name)
		}
	}))
}

// podOfLogs returns the UID in <namespace>_<name>_<UID>, the name of a pod's log directory. A UID may contain an
// underscore; object names do not.
func podOfLogs(dir string) (types.UID, bool) {
	parts := strings.SplitN(dir, "_", 3)
	if len(parts) < 3 {
		return "", false
	}
	return types.UID(parts[2]), true
}

// each calls do for each name in a directory, which need not exist.
func each(dir string, do func(root *os.Root, name string)) error {
	root, err := openLogs(dir)
	if root == nil {
		return err
	}
	defer root.Close()
	names, err := hostfs.Names(root, ".")
	for _, name := range names {
		do(root, name)
	}
	return err
}

// removeNames removes names in a directory. A directory or a file that does not exist is no error.
func removeNames(dir string, names []string, remove func(*os.Root, string) error) error {
	if len(names) == 0 {
		return nil
	}
	root, err := openLogs(dir)
	if root == nil {
		return err
	}
	defer root.Close()
	var errs []error
	for _, name := range names {
		if err := remove(root, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("logs %s: %w", filepath.Join(dir, name), err))
		}
	}
	return errors.Join(errs...)
}

// openLogs returns nil if the directory does not exist.
func openLogs(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("logs: %w", err)
	}
	return root, nil
}

// A sharedRead shares what one read returns with all callers that waited for it to begin. If 10,000 pods are removed
// at once, a directory with their 10,000 names is read a few times, and not 10,000 times.
type sharedRead[T any] struct {
	turn chan struct{} // one read at a time
	mu   sync.Mutex
	next *pendingRead[T]
}

// A pendingRead has not begun, so that it will see all that its callers did before.
type pendingRead[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func newSharedRead[T any]() *sharedRead[T] { return &sharedRead[T]{turn: make(chan struct{}, 1)} }

// get returns what read returns, in a call that begins after get was called. Callers share the value, and do not modify it.
func (s *sharedRead[T]) get(read func() (T, error)) (T, error) {
	s.mu.Lock()
	r, leads := s.next, s.next == nil
	if leads {
		r = &pendingRead[T]{done: make(chan struct{})}
		s.next = r
	}
	s.mu.Unlock()
	if leads {
		s.turn <- struct{}{}
		s.mu.Lock()
		s.next = nil
		s.mu.Unlock()
		r.value, r.err = read()
		close(r.done)
		<-s.turn
	}
	<-r.done
	return r.value, r.err
}

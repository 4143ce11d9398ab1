package syncpod

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/hostfs"
	containerstart "github.com/podsync/podsync/syncpod/container/start"
)

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

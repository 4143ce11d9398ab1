package gc

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/hostfs"
)

// see records the pod's log directory, so that it can be removed after the pod, and reports whether the
// directory is known. If the pod's names lead outside LogsRoot, it has no log directory.
func (c *Collector) see(status *runtime.PodStatus) bool {
	if c.directories[status.UID] != "" {
		return true
	}
	dir := status.Namespace + "_" + status.Name + "_" + string(status.UID)
	if hostfs.Element("log directory", dir) != nil {
		return false
	}
	c.directories[status.UID] = dir
	return true
}

// pruneLogs removes logs that need not be kept, and the links to them. If gone is false, no
// recorded pod can have left the runtime, and whole pods' directories are not read.
func (c *Collector) pruneLogs(live []*runtime.PodStatus, gone bool, lives PodStates) error {
	if c.config.LogsRoot == "" {
		return nil
	}
	root, err := os.OpenRoot(c.config.LogsRoot)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("gc: Config.LogsRoot: %w", err)
	}
	defer root.Close()
	var errs []error
	for _, status := range live {
		errs = append(errs, c.pruneOf(root, status))
	}
	found, err := c.findEarlier(root, lives)
	errs = append(errs, err)
	if gone || found {
		for _, uid := range slices.Sorted(maps.Keys(c.directories)) {
			errs = append(errs, c.removeDirectory(root, uid, lives))
		}
	}
	return errors.Join(append(errs, c.pruneLinks(root, live))...)
}

// findEarlier records the log directories for pods that have stopped and that the runtime had lost before the first pass. It
// leaves those for unknown pods, which may belong to another agent.
func (c *Collector) findEarlier(root *os.Root, lives PodStates) (found bool, err error) {
	if c.earlier == nil {
		names, err := hostfs.Names(root, ".")
		if err != nil {
			return false, fmt.Errorf("gc: Config.LogsRoot: %w", err)
		}
		c.earlier = map[types.UID]string{}
		for _, name := range names {
			if parts := strings.SplitN(name, "_", 3); len(parts) == 3 && c.directories[types.UID(parts[2])] == "" {
				c.earlier[types.UID(parts[2])] = name
			}
		}
	}
	for uid, name := range c.earlier {
		if lives.AllShouldBeRemoved(uid) {
			c.directories[uid], found = name, true
			delete(c.earlier, uid)
		}
	}
	return found, nil
}

// removeDirectory removes the logs for a pod that the runtime no longer has.
func (c *Collector) removeDirectory(root *os.Root, uid types.UID, lives PodStates) error {
	if status, err := c.config.Pods.Get(uid); err != nil || !status.Empty() || !lives.ContentShouldBeRemoved(uid) {
		return nil
	}
	if err := root.RemoveAll(c.directories[uid]); err != nil {
		return fmt.Errorf("gc: logs of pod %s: %w", uid, err)
	}
	delete(c.directories, uid)
	return nil
}

// pruneOf removes logs from the pod's containers. It keeps all logs from a container that has no
// instance in the runtime, because they are its only record. It does not read the directory for
// a container whose first instance still exists: most containers never restart.
func (c *Collector) pruneOf(root *os.Root, status *runtime.PodStatus) error {
	var there map[string]map[uint32]bool
	for i := range status.Containers {
		instance := &status.Containers[i]
		if status.Latest(instance.Name).Attempt == 0 {
			continue
		}
		if there == nil {
			there = map[string]map[uint32]bool{}
		}
		if there[instance.Name] == nil {
			there[instance.Name] = map[uint32]bool{}
		}
		there[instance.Name][instance.Attempt] = true
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(there)) {
		dir := c.directories[status.UID]
		if dir == "" || hostfs.Element("container name", name) != nil {
			continue
		}
		newest := status.Latest(name).Attempt
		err := c.pruneDirectory(root, path.Join(dir, name), func(attempt uint32) bool {
			return attempt > newest || there[name][attempt]
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("gc: logs of container %q of pod %s/%s: %w", name, status.Namespace, status.Name, err))
		}
	}
	return errors.Join(errs...)
}

// pruneDirectory removes a container's logs, except those from the newest attempts and those
// that keep selects.
func (c *Collector) pruneDirectory(root *os.Root, dir string, keep func(attempt uint32) bool) error {
	names, err := hostfs.Names(root, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	logs := map[uint32][]string{}
	for _, name := range names {
		if attempt, ok := attemptOf(name); ok {
			logs[attempt] = append(logs[attempt], name)
		}
	}
	attempts := slices.Sorted(maps.Keys(logs))
	var errs []error
	for _, attempt := range attempts[:max(0, len(attempts)-keptDead-1)] {
		if keep(attempt) {
			continue
		}
		for _, name := range logs[attempt] {
			errs = append(errs, removeFile(root, path.Join(dir, name)))
		}
	}
	return errors.Join(errs...)
}

// removeFile removes a log. If a rotation has renamed it in the meantime, the next pass finds it.
// Directories are kept.
func removeFile(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err == nil && !info.IsDir() {
		err = root.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// attemptOf returns the attempt that a log file belongs to. The file is either the current log,
// <attempt>.log, or a rotated one with a suffix after that.
func attemptOf(file string) (attempt uint32, ok bool) {
	number, rest, _ := strings.Cut(file, ".")
	n, err := strconv.ParseUint(number, 10, 32)
	return uint32(n), err == nil && (rest == "log" || strings.HasPrefix(rest, "log."))
}

// pruneLinks removes the links to logs below root that no longer exist. It keeps an existing
// instance's link, because a rotation may be about to recreate the log.
func (c *Collector) pruneLinks(root *os.Root, live []*runtime.PodStatus) error {
	if c.config.LogLinks == "" {
		return nil
	}
	links, err := os.OpenRoot(c.config.LogLinks)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("gc: Config.LogLinks: %w", err)
	}
	defer links.Close()
	names, err := hostfs.Names(links, ".")
	if err != nil {
		return fmt.Errorf("gc: Config.LogLinks: %w", err)
	}
	current := c.logFiles(live)
	var errs []error
	for _, name := range names {
		if target := c.target(links, name); target != "" && !current[target] && isGone(root, target) {
			errs = append(errs, links.Remove(name))
		}
	}
	return errors.Join(errs...)
}

// logFiles returns the logs of all existing instances, relative to LogsRoot.
func (c *Collector) logFiles(live []*runtime.PodStatus) map[string]bool {
	files := map[string]bool{}
	for _, status := range live {
		for i := range status.Containers {
			instance := &status.Containers[i]
			file := strconv.FormatUint(uint64(instance.Attempt), 10) + ".log"
			files[filepath.Join(c.directories[status.UID], instance.Name, file)] = true
		}
	}
	return files
}

// target returns the target of a link relative to LogsRoot, or "" if the file is not a link or
// leads elsewhere.
func (c *Collector) target(links *os.Root, name string) string {
	to, err := links.Readlink(name)
	if err != nil {
		return ""
	}
	target, err := filepath.Rel(c.config.LogsRoot, to)
	if err != nil {
		return ""
	}
	return target
}

// isGone reports whether a file below root does not exist. For a path outside root it returns
// false.
func isGone(root *os.Root, file string) bool {
	_, err := root.Stat(file)
	return errors.Is(err, fs.ErrNotExist)
}

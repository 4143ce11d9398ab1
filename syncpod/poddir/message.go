package poddir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/container"
)

const (
	// messageMode allows a process of any user to write its message.
	messageMode = 0o666
	// maxMessage is the number of bytes that are read from a message file's end.
	maxMessage = 4096
	// keptMessages is the number of instances of a container whose files are kept.
	keptMessages = 5
)

// messageFile returns the path of an instance's file in the pod's directory.
func messageFile(name string, attempt uint32) string {
	return path.Join(containersDir, name, fmt.Sprintf("%08x", attempt))
}

// messageMount creates the file for the message of one instance and mounts it. The file is empty when the
// instance starts.
func (d *Dirs) messageMount(root *os.Root, req container.MountRequest) (*runtimeapi.Mount, error) {
	c := req.Container
	if !leavesMessage(c) {
		return nil, nil
	}
	if err := hostfs.Element("container name", c.Name); err != nil {
		return nil, err
	}
	if err := root.MkdirAll(path.Join(containersDir, c.Name), dirMode); err != nil {
		return nil, err
	}
	if err := emptyFile(root, messageFile(c.Name, req.Attempt)); err != nil {
		return nil, err
	}
	if req.Attempt >= keptMessages {
		// A container that crashes forever must not fill the node with files.
		if err := root.Remove(messageFile(c.Name, req.Attempt-keptMessages)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	file := filepath.FromSlash(messageFile(c.Name, req.Attempt))
	return managed(c.TerminationMessagePath, filepath.Join(root.Name(), file)), nil
}

// leavesMessage reports whether the container has a file for its message: not if
// it names none, or has mounted a volume there.
func leavesMessage(c *v1.Container) bool {
	return c.TerminationMessagePath != "" && !mountsAt(c, path.Clean(c.TerminationMessagePath))
}

// emptyFile creates a file, or empties an existing one: an instance that was created with it, and whose creation
// the runtime did not answer, still has the same file.
func emptyFile(root *os.Root, name string) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, messageMode)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(messageMode), f.Close()) // whatever the process's umask
}

// TerminationMessage returns the termination message from a container that has exited. It consists of the runtime's
// message (c.TerminationMessage), followed by the text that the container wrote to its file at terminationMessagePath.
// If the container failed without writing one, and its terminationMessagePolicy is FallbackToLogsOnError, the end of
// its log replaces the file. TerminationMessage returns the last 4096 bytes in a file, or the last 80 lines in a log,
// at most 2048 bytes. An instance that has not ended has only the runtime's message. Package apistatus limits the
// messages of all containers in a pod together.
//
// If the file or log cannot be read, TerminationMessage returns the runtime's message with an error. A missing
// file is not an error.
func (d *Dirs) TerminationMessage(pod *v1.Pod, c *runtime.ContainerStatus) (string, error) {
	if c == nil {
		return "", nil
	}
	spec, err := runtime.FindContainer(pod, c.Name)
	if err != nil || c.State != runtime.ContainerExited {
		return c.Message, nil // a container that the spec does not have has no policy
	}
	left, err := d.left(pod, spec, c)
	switch {
	case err != nil:
		return c.Message, fmt.Errorf("termination message of container %q of pod %s/%s: %w", c.Name, pod.Namespace, pod.Name, err)
	case left == "":
		return c.Message, nil
	case c.Message == "":
		return left, nil
	}
	return c.Message + ": " + left, nil
}

// left returns the message that a container has written.
func (d *Dirs) left(pod *v1.Pod, spec *v1.Container, c *runtime.ContainerStatus) (string, error) {
	if err := hostfs.Element("container name", c.Name); err != nil {
		return "", err
	}
	if leavesMessage(spec) {
		dir, err := d.Dir(pod.UID)
		if err != nil {
			return "", err
		}
		message, err := readEnd(dir, messageFile(c.Name, c.Attempt), maxMessage)
		if err != nil || len(message) > 0 {
			return text(message), err
		}
	}
	if !fallsBack(spec, c) {
		return "", nil
	}
	return d.leftInLog(pod, c)
}

// fallsBack reports whether the log replaces a missing message. If the container could not run, the log is not
// its own.
func fallsBack(spec *v1.Container, c *runtime.ContainerStatus) bool {
	return spec.TerminationMessagePolicy == v1.TerminationMessageFallbackToLogsOnError &&
		c.ExitCode != 0 && c.Reason != "ContainerCannotRun"
}

func (d *Dirs) leftInLog(pod *v1.Pod, c *runtime.ContainerStatus) (string, error) {
	dir, err := sandbox.BuildPodLogsDirectory(d.config.LogsRoot, pod)
	if err != nil {
		return "", err
	}
	name, err := container.LogPath(c.Name, c.Attempt)
	if err != nil {
		return "", err
	}
	end, err := readEnd(filepath.FromSlash(dir), name, logWindow)
	return text(logTail(end)), err
}

// readEnd returns the last bytes in a regular file below dir, at most n. It
// returns none if the file does not exist. Other than regular files are not read,
// because they could block, or lead elsewhere.
func readEnd(dir, name string, n int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, info, err := hostfs.Open(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-n), n))
}

// text replaces bytes that the API does not accept.
func text(b []byte) string { return strings.ToValidUTF8(string(b), "?") }

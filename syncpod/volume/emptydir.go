package volume

import (
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/mounts"
)

// emptyDirMode lets processes of any user use the volume.
const emptyDirMode = 0o777

// emptyDir makes the directory if it is not there: what containers have put into
// it stays.
func (v *Volumes) emptyDir(source *v1.EmptyDirVolumeSource, path string) error {
	switch source.Medium {
	case v1.StorageMediumDefault:
		return makeDir(path, emptyDirMode)
	case v1.StorageMediumMemory:
	default:
		return fmt.Errorf("emptyDir.medium %q is not supported", source.Medium)
	}
	if v.config.Unprivileged {
		return fmt.Errorf("emptyDir.medium %s needs the right to mount, and the agent does without it", source.Medium)
	}
	var size int64
	if source.SizeLimit != nil {
		size = source.SizeLimit.Value()
	}
	return inMemory(path, emptyDirMode, size)
}

// makeDir makes a directory with that mode, whatever the process's umask, unless
// it is there.
func makeDir(path string, mode os.FileMode) error {
	err := os.Mkdir(path, mode)
	if os.IsExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// inMemory makes a directory on a file system of its own in memory of at most
// size bytes, unless it is one. Size 0 leaves it to the kernel: half of the
// node's memory.
func inMemory(path string, mode os.FileMode, size int64) error {
	if err := makeDir(path, mode); err != nil {
		return err
	}
	there, err := mounts.At(path)
	if err != nil || there {
		return err
	}
	if err := mountTmpfs(path, mode, size); err != nil {
		return fmt.Errorf("mount a tmpfs, which Config.Unprivileged does without: %w", err)
	}
	return nil
}

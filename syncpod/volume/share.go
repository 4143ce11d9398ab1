package volume

import (
	"fmt"
	"os"

	"github.com/podsync/podsync/runtime/hostfs/mounts"
)

// ShareRoot makes an agent's root directory, which holds pod directories, a mount with shared propagation, as a
// kubelet does with its root directory. It changes nothing if the mount that holds the directory is shared, as on
// machines with systemd. Otherwise it binds the directory to itself, with all mounts below it. Without a shared
// mount, mountPropagation and recursiveReadOnly of volume mounts fail, because the runtime rejects a volume on a
// private mount.
//
// Call it before any file in the directory is opened. It creates a missing directory. The mount
// stays when the agent ends, because containers hold copies of it; the next agent uses it. The error wraps
// [io/fs.ErrPermission] if the process may not mount; an agent can run pods without the mount. On systems other than
// Linux, ShareRoot only creates the directory.
func ShareRoot(root string) error {
	err := os.MkdirAll(root, 0o750)
	if err == nil {
		err = mounts.Share(root)
	}
	if err != nil {
		return fmt.Errorf("make %s a mount with shared propagation: %w", root, err)
	}
	return nil
}

package volume

import (
	"fmt"
	"os"

	"github.com/podsync/podsync/internal/base/mounts"
)

// ShareRoot makes the root directory of an agent, which holds the directories of pods, a mount with shared
// propagation, as a kubelet does with its root directory. It changes nothing if the mount that holds
// the directory is shared, as where systemd runs. Otherwise it binds the directory to itself, with all mounts
// below it. Without it mountPropagation and recursiveReadOnly of volume mounts fail, because the runtime
// refuses a volume on a mount that is private.
//
// Call it before anything in the directory is opened. It makes a directory that does not exist. The mount
// stays when the agent ends: containers hold copies of it, and the next agent finds it shared. The error wraps
// [io/fs.ErrPermission] if the process may not mount; an agent can run pods without. Other systems than Linux have no
// propagation: nothing is mounted there.
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

package tree_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/podsync/podsync/syncpod/cgroup"
	"github.com/podsync/podsync/syncpod/cgroup/tree"
)

// New rejects an invalid configuration before it changes anything.
func Example() {
	mount, err := os.MkdirTemp("", "cgroup")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(mount)
	_, err = tree.New(tree.Config{Mount: mount, State: filepath.Join(mount, "state"), Driver: cgroup.Systemd})
	fmt.Println(err)
	// Output: tree: Config.Slices is missing: with the driver systemd slices are made over D-Bus
}

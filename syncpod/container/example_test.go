package container_test

import (
	"fmt"

	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/container"
)

// A node whose containers get the runtime's seccomp profile if they name none.
func ExampleNode() {
	config := syncpod.Config{Node: syncpod.Node{Containers: container.Node{SeccompDefault: true}}}
	fmt.Println(config.Node.Containers.SeccompDefault)
	// Output: true
}

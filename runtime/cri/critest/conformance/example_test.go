package conformance_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/conformance"
)

// A runtime in this process is created inside a bubble, so that no rule takes any time.
func ExampleRun() {
	var t *testing.T // of func TestMyRuntime(t *testing.T)
	dir := t.TempDir()
	dial := func(t *testing.T) *grpc.ClientConn {
		_, conn := critest.Start(t, critest.Config{Dir: dir, Images: []critest.Image{{Name: "busybox", OnlyKnown: true}}, Registry: []critest.RemoteImage{}})
		return conn.ClientConn
	}
	conformance.Run(t, dial, conformance.Config{Image: "busybox", Dir: dir, Around: synctest.Test})
}

// The rules about the removal of a container.
func ExampleRules() {
	for name, sentence := range conformance.Rules() {
		if strings.HasPrefix(name, "remove") {
			fmt.Printf("%s: %s\n", name, sentence)
		}
	}
	// Output:
	// remove: A removed container is listed no more, and ContainerStatus fails with NotFound.
	// remove-running: RemoveContainer of a running container kills it first.
	// remove-unknown: RemoveContainer of a container that is not there succeeds, or fails with NotFound.
	// remove-keeps-sandbox: Removing the last container leaves its sandbox READY.
}

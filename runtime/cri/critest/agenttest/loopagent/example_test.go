package loopagent_test

import (
	"fmt"

	"github.com/podsync/podsync/runtime/cri/critest/agenttest"
	"github.com/podsync/podsync/runtime/cri/critest/agenttest/loopagent"
	"github.com/podsync/podsync/syncpod/loop"
)

// A loop that is configured as one's own is.
func ExampleNew() {
	agent := loopagent.New(func(_ agenttest.Node, cfg *loop.Config) { cfg.NodeName = "edge-7" })
	_, err := agent(agenttest.Node{}) // which agenttest.Run does, for each scenario
	fmt.Println(err)
	// Output: <nil>
}

package loopagent_test

import (
	"fmt"

	"github.com/podsync/podsync/runtime/cri/critest/agenttest"
	"github.com/podsync/podsync/runtime/cri/critest/agenttest/loopagent"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
)

// A loop that is configured as one's own is.
func ExampleNew() {
	agent := loopagent.New(func(_ agenttest.Node, cfg *nodeagent.Config) { cfg.NodeName = "edge-7" })
	_, err := agent(agenttest.Node{}) // which agenttest.Run does, for each scenario
	fmt.Println(err)
	// Output: <nil>
}

package loopagent_test

import (
	"fmt"

	"github.com/podsync/podsync/runtime/cri/critest/agenttest"
	"github.com/podsync/podsync/runtime/cri/critest/agenttest/loopagent"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
)

// The loop under test is configured like the caller's own loop.
func ExampleNew() {
	agent := loopagent.New(func(_ agenttest.Node, cfg *nodeagent.Config) { cfg.NodeName = "edge-7" })
	_, err := agent(agenttest.Node{}) // agenttest.Run does this for each scenario
	fmt.Println(err)
	// Output: <nil>
}

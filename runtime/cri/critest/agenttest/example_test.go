package agenttest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/podsync/podsync/runtime/cri/critest/agenttest"
)

// The promises about images.
func ExamplePromises() {
	for p := range agenttest.Promises() {
		if strings.HasPrefix(p.Name, "pull") {
			fmt.Printf("%s: %s\n", p.Name, p.Sentence)
		}
	}
	// Output:
	// pull-never: With the pull policy Never no image is pulled.
	// pull-if-not-present: With the pull policy IfNotPresent, a present image is not pulled.
	// pull-always: With the pull policy Always, an image is pulled before each start.
}

// An agent in the test's process runs a scenario of its own in virtual time.
func ExampleRun() {
	var t *testing.T                                          // the parameter of func TestMyAgent(t *testing.T)
	var myAgent func(agenttest.Node) (agenttest.Agent, error) // implements the four methods of Agent
	agenttest.Run(t, synctest.Test, agenttest.Config{Agent: myAgent, Scenarios: []agenttest.Scenario{{
		Name: "killed while a pod is stopped",
		Steps: []agenttest.Step{
			{Do: "add", Pod: "leaving"},
			{After: 10, Do: "remove", Pod: "leaving"},
			{After: 1, Do: "kill-agent"},
			{After: 2, Do: "start-agent"},
		},
	}}})
}

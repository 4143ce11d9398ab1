package loopagent_test

import (
	"testing"
	"testing/synctest"

	"github.com/podsync/podsync/runtime/cri/critest/agenttest"
	"github.com/podsync/podsync/runtime/cri/critest/agenttest/loopagent"
)

// A bare loop keeps every promise, in the scenarios that every agent is played.
func TestLoop(t *testing.T) {
	agenttest.Run(t, synctest.Test, agenttest.Config{Agent: loopagent.New(nil), Dir: t.TempDir()})
}

// seeds is how many random scenarios a bare loop is played.
const seeds = 100

func TestLoopInRandomScenarios(t *testing.T) {
	var all []agenttest.Scenario
	for seed := range uint64(seeds) {
		all = append(all, agenttest.Random(seed+1))
	}
	agenttest.Run(t, synctest.Test, agenttest.Config{Agent: loopagent.New(nil), Dir: t.TempDir(), Scenarios: all})
}

package loopagent_test

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/podsync/podsync/internal/rig/plancheck"
	"github.com/podsync/podsync/runtime/cri/critest/agenttest"
	"github.com/podsync/podsync/runtime/cri/critest/agenttest/loopagent"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
)

// A bare loop keeps every promise, in the scenarios that every agent is played. They put
// each one to the test.
func TestLoop(t *testing.T) {
	report := agenttest.Run(t, synctest.Test, agenttest.Config{Agent: loopagent.New(asPlanned(t)), Dir: t.TempDir()})
	for _, o := range report.Outcomes {
		if o.State != agenttest.Kept {
			t.Errorf("%s is %s, want %v", o.Promise, o.State, agenttest.Kept)
		}
	}
}

// asPlanned has each loop's calls held against its plans.
func asPlanned(t *testing.T) func(agenttest.Node, *nodeagent.Config) {
	return func(_ agenttest.Node, cfg *nodeagent.Config) { plancheck.Check(t, cfg) }
}

// seedsHere is how many random scenarios are played where PODSYNC_REFEREE does not say.
const seedsHere = 15

// A bare loop keeps every promise, in random scenarios: PODSYNC_REFEREE of them.
func TestLoopInRandomScenarios(t *testing.T) {
	seeds := uint64(seedsHere)
	if s := os.Getenv("PODSYNC_REFEREE"); s != "" {
		var err error
		if seeds, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("PODSYNC_REFEREE: %v", err)
		}
	}
	var all []agenttest.Scenario
	for seed := range seeds {
		all = append(all, agenttest.Random(seed+1))
	}
	agenttest.Run(t, synctest.Test, agenttest.Config{Agent: loopagent.New(asPlanned(t)), Dir: t.TempDir(), Scenarios: all})
}

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

// A loop without further parts keeps every promise in the scenarios for every agent. These scenarios
// test every promise.
func TestLoop(t *testing.T) {
	report := agenttest.Run(t, synctest.Test, agenttest.Config{Agent: loopagent.New(asPlanned(t)), Dir: t.TempDir()})
	for _, o := range report.Outcomes {
		if o.State != agenttest.Kept {
			t.Errorf("%s is %s, want %v", o.Promise, o.State, agenttest.Kept)
		}
	}
}

// asPlanned compares each loop's calls with its plans.
func asPlanned(t *testing.T) func(agenttest.Node, *nodeagent.Config) {
	return func(_ agenttest.Node, cfg *nodeagent.Config) { plancheck.Check(t, cfg) }
}

// seedsHere is the number of random scenarios unless PODSYNC_REFEREE sets it.
const seedsHere = 15

// A loop without further parts keeps every promise in PODSYNC_REFEREE random scenarios.
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

package recorder_test

import (
	"fmt"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/recorder"
)

// The agent records its decisions.
func ExampleNew() {
	r, err := recorder.New(recorder.Config{Dir: "/var/lib/podsync/decisions"})
	if err != nil {
		fmt.Println(err)
		return
	}
	var config agent.Config
	config.Sync.Decided = r.Record
	config.Parts = append(config.Parts, r)
}

// Which decisions of last week would this version make otherwise?
func ExampleRead() {
	err := recorder.Read("/nowhere", func(d recorder.Decision) error {
		if now := actions.Compute(d.Input()).String(); now != d.Plan {
			fmt.Println(d.Time, d.Name, "was", d.Plan, "is", now)
		}
		return nil
	})
	fmt.Println(err)
	// Output: recorder: /nowhere has no decisions: file does not exist
}

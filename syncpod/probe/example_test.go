package probe_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	podprobe "github.com/podsync/podsync/syncpod/probe"
)

// slow prints the checks that took long. An agent.Config has it as ProbeObserver.
type slow struct{ podprobe.NopObserver }

func (slow) Checked(c podprobe.Check) {
	if c.Took > time.Second {
		fmt.Printf("%s of %s/%s took %v, succeeded: %t\n", c.Kind, c.Pod.Name, c.Container, c.Took, c.Outcome == actions.ProbeSuccess)
	}
}

func ExampleObserver() {
	pod := &v1.Pod{}
	pod.Name = "web"
	var observer podprobe.Observer = slow{}
	observer.Checked(podprobe.Check{Pod: pod, Container: "app", Kind: podprobe.Liveness, Outcome: actions.ProbeSuccess, Took: 2 * time.Second})
	// Output: Liveness of web/app took 2s, succeeded: true
}

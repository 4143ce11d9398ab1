package lifecycle_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/syncpod/lifecycle"
)

// A container that failed its liveness probe has the probe's grace period, if that has one.
func ExampleContainerGrace() {
	pod, probe := int64(60), int64(5)
	spec := &v1.Pod{}
	spec.Spec.TerminationGracePeriodSeconds = &pod
	app := &v1.Container{Name: "app", LivenessProbe: &v1.Probe{TerminationGracePeriodSeconds: &probe}}
	fmt.Println(lifecycle.ContainerGrace(spec, app, actions.LivenessFailed))
	fmt.Println(lifecycle.PodGrace(spec))
	// Output:
	// 5s
	// 1m0s
}

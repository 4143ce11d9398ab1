package clustertest_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/modules/cluster/clustertest"
)

// That makes a condition for WaitFor. WaitFor names it if the pod does not meet it in time.
func ExampleThat() {
	restarted := clustertest.That("Restarted", func(pod *v1.Pod) bool {
		return pod != nil && len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].RestartCount > 0
	})
	// In a test: cluster.WaitFor(t, "default/web", restarted, time.Minute)
	fmt.Println(restarted)
	// Output: Restarted
}

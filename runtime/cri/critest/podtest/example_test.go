package podtest_test

import (
	"fmt"

	"github.com/podsync/podsync/runtime/cri/critest/podtest"
)

func ExamplePod() {
	pod := podtest.Pod("web", podtest.GracePeriod(5),
		podtest.InitContainer("proxy", podtest.Sidecar),
		podtest.Container("app", podtest.Script("sleep infinity"), podtest.Requests("cpu=2 memory=1Gi")))
	app := pod.Spec.Containers[0]
	fmt.Println(pod.UID, *pod.Spec.TerminationGracePeriodSeconds, *pod.Spec.InitContainers[0].RestartPolicy)
	fmt.Println(app.Name, app.Image, app.Command, app.Resources.Requests.Memory())
	// Output:
	// uid-web 5 Always
	// app registry.test/app:1 [sh -c sleep infinity] 1Gi
}

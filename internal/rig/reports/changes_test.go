//go:build linux

package reports

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// A container whose stop ends while the image of another one is pulled for a moment restarts.
func TestB6_StopEndsDuringAShortPull(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Times: faults.Always, Delay: 500 * time.Millisecond}); err != nil {
			n.Fatal(err)
		}
		sick := func(name, stop string) string {
			return `{name: ` + name + `, imagePullPolicy: Always, command: [sh, -c, "touch /live; trap 'sleep ` + stop + `; exit 0' TERM; sleep infinity & wait"], livenessProbe: {exec: {command: [test, -e, /live]}, periodSeconds: 1, failureThreshold: 1, initialDelaySeconds: 2}}`
		}
		n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 60, containers: [` + sick("one", "30") + `, ` + sick("two", "30.3") + `]}}`)
		time.Sleep(time.Minute)
		exec(n, "one", "rm", "/live")
		exec(n, "two", "rm", "/live")
		time.Sleep(time.Minute)
		for _, c := range []string{"one", "two"} {
			n.want(len(n.runs(c)), 2, "runs of "+c)
		}
	})
}

// Fields that a newer API server fills in restart no container, neither of this agent nor of the next one.
func TestDefaultsOfANewerServer(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {initContainers: [{name: side, restartPolicy: Always, command: [server]}], containers: [{name: app, command: [server], resources: {limits: {cpu: 1, memory: 1Gi}}}]}}`)
		time.Sleep(time.Minute)
		pod = pod.DeepCopy()
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				list[i].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: v1.NotRequired}, {ResourceName: "memory", RestartPolicy: v1.NotRequired}}
				list[i].TerminationMessagePath, list[i].TerminationMessagePolicy = v1.TerminationMessagePathDefault, v1.TerminationMessageReadFile
				list[i].ImagePullPolicy = v1.PullIfNotPresent
			}
		}
		n.update(pod)
		time.Sleep(time.Minute)
		n.restart(time.Second)
		time.Sleep(10 * time.Minute)
		n.want(len(n.runs("app")), 1, "runs of app")
		n.want(len(n.runs("side")), 1, "runs of side")
	})
}

// An image that changes while the postStart handler runs restarts the container once.
func TestImageChangesDuringAHandler(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server], lifecycle: {postStart: {exec: {command: [sleep, "40"]}}}}]}}`)
		time.Sleep(20 * time.Second)
		pod = pod.DeepCopy()
		pod.Spec.Containers[0].Image = "registry.test/app:2"
		n.update(pod)
		time.Sleep(10 * time.Minute)
		n.want(len(n.runs("app")), 2, "runs")
		n.want(n.of("a", "app").Image, "registry.test/app:2", "image")
		n.want(n.of("a", "app").Ready, true, "ready")
	})
}

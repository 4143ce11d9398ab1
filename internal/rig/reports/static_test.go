//go:build linux

package reports

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/podspec"
	"github.com/podsync/podsync/syncpod/source"
)

// onStatic runs a story on a node that also has static pods, which set replaces.
func onStatic(t *testing.T, c critest.Config, story func(n *node, set func(manifests ...string))) {
	var push *source.Push
	on(t, c, func(c *agent.Config) {
		if push == nil { // in the bubble
			push = source.NewStaticPush("file")
		}
		c.Sources = append(c.Sources, push)
	}, func(n *node) {
		story(n, func(manifests ...string) {
			n.Helper()
			var pods []*v1.Pod
			for _, m := range manifests {
				pod := parse(n.T, m)
				pod.UID = ""
				pods = append(pods, podspec.Static(pod, "node-1", podspec.Source{}))
			}
			if err := push.Set(pods...); err != nil {
				n.Fatal(err)
			}
		})
	})
}

// only returns the UID of the one pod of the agent.
func (n *node) only() string {
	n.Helper()
	pods := n.agent.Pods()
	if len(pods) != 1 {
		n.Fatalf("the agent has %d pods", len(pods))
	}
	return string(pods[0].Pod.UID)
}

// A static pod that is changed replaces the earlier one once, and begins with a restart count of 0.
func TestStaticPodIsChanged(t *testing.T) {
	onStatic(t, critest.Config{}, func(n *node, set func(...string)) {
		manifest := func(code string) string {
			return "{metadata: {name: api}, spec: {containers: [{name: app, command: [sh, -c, 'sleep 20; exit " + code + "']}]}}"
		}
		set(manifest("1"))
		time.Sleep(2 * time.Minute)
		first := n.only()
		n.want(n.of(first, "app").RestartCount > 1, true, "it was restarted")
		set(manifest("2"))
		time.Sleep(40 * time.Second)
		second := n.only()
		n.want(second != first, true, "another pod")
		n.want(n.past(second)[0].ContainerStatuses[0].RestartCount, 0, "restart count")
		n.want(n.last(second, "app").ExitCode, 2, "exit code")
		n.NoDoubleRuns()
	})
}

// A static pod that is removed and returns several times while it stops runs in the end, once.
func TestStaticPodReturns(t *testing.T) {
	calls := map[critest.Method]time.Duration{critest.RunPodSandbox: time.Millisecond, critest.StartContainer: time.Millisecond, critest.ListContainers: time.Millisecond}
	onStatic(t, critest.Config{Latency: calls}, func(n *node, set func(...string)) { // two reads are not at one time
		const manifest = `{metadata: {name: api}, spec: {terminationGracePeriodSeconds: 20, containers: [{name: app, command: [sh, -c, "trap 'sleep 10; exit 0' TERM; sleep infinity & wait"]}]}}`
		for range 4 {
			set(manifest)
			time.Sleep(3 * time.Second)
			set()
			time.Sleep(2 * time.Second)
		}
		set(manifest)
		time.Sleep(time.Minute)
		n.want(n.status(n.only()).Phase, v1.PodRunning, "phase")
		n.NoDoubleRuns()
	})
}

//go:build linux

package reports

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// flaky returns a program that fails after 5 s for so many runs, and then starts and runs.
func flaky(failures int32) critest.Program {
	var runs atomic.Int32
	return func(ctx context.Context, c *critest.Command) int {
		if runs.Add(1) <= failures {
			time.Sleep(5 * time.Second)
			return 1
		}
		c.WriteFile("/started", []byte("yes"))
		select {
		case <-c.Signals:
			return 0
		case <-ctx.Done():
			return 137
		}
	}
}

// A sidecar that fails before its startup probe succeeds does not keep a pod that never restarts from starting.
func TestSidecarFailsItsFirstStart(t *testing.T) {
	on(t, critest.Config{Programs: map[string]critest.Program{"flaky": flaky(1)}}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {restartPolicy: Never, initContainers: [
 {name: first, restartPolicy: Always, command: [server], startupProbe: {exec: {command: ["true"]}, periodSeconds: 1}},
 {name: second, restartPolicy: Always, command: [flaky], startupProbe: {exec: {command: [test, -e, /started]}, periodSeconds: 1}}],
 containers: [{name: app, command: [sleep, "60"]}]}}`)
		time.Sleep(10 * time.Minute)
		n.want(len(n.runs("app")), 1, "runs of the app")
		n.want(n.of("a", "second").RestartCount, 1, "restarts of the sidecar")
		n.want(n.status("a").Phase, v1.PodSucceeded, "phase")
	})
}

// Init containers that succeed run once, whatever the policy of the pod and however often its containers restart.
func TestInitContainersRunOnce(t *testing.T) {
	for _, policy := range []string{"Always", "OnFailure", "Never"} {
		t.Run(policy, func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				n.apply(`{metadata: {name: a}, spec: {restartPolicy: ` + policy + `, initContainers: [{name: init, command: ["true"]}], containers: [{name: app, command: [sh, -c, "sleep 20; exit 1"]}]}}`)
				time.Sleep(30 * time.Minute)
				n.restart(time.Minute)
				time.Sleep(30 * time.Minute)
				n.want(len(n.runs("init")), 1, "runs of the init container")
				n.want(len(n.runs("app")) > 5, policy != "Never", "the app restarts")
			})
		})
	}
}

// An init container that does not end is never joined by the app, and stops with the pod.
func TestInitContainerThatDoesNotEnd(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {initContainers: [{name: init, env: [{name: A, value: b}], command: [sh, -c, "echo $A > /dev/termination-log; trap 'exit 5' TERM; sleep infinity & wait"]}], containers: [{name: app, command: [server]}]}}`)
		time.Sleep(time.Hour)
		n.want(n.status("a").Phase, v1.PodPending, "phase")
		n.want(n.condition("a", v1.PodInitialized).Reason, "ContainersNotInitialized", "Initialized")
		n.want(n.of("a", "init").Ready, false, "ready")
		n.want(n.waits("a", "app").Reason, "PodInitializing", "the app waits")
		n.delete(pod, 30)
		time.Sleep(time.Minute)
		n.want(n.ended("a", "init").ExitCode, 5, "exit code")
		n.want(n.ended("a", "init").Message, "b\n", "message")
		n.want(len(n.runs("app")), 0, "runs of the app")
	})
}

// Ready of init containers: after success for those that end, by running or by the probe for sidecars.
func TestReadyOfInitContainers(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {initContainers: [
 {name: init, command: [sleep, "20"]},
 {name: plain, restartPolicy: Always, command: [server]},
 {name: probed, restartPolicy: Always, command: [sh, -c, "sleep 30; touch /ready; sleep infinity"], readinessProbe: {exec: {command: [test, -e, /ready]}, periodSeconds: 1}}],
 containers: [{name: app, command: [server]}]}}`)
		time.Sleep(10 * time.Second)
		n.want(n.of("a", "init").Ready, false, "init while it runs")
		time.Sleep(20 * time.Second)
		n.want(n.of("a", "init").Ready, true, "init after it succeeded")
		n.want(n.of("a", "plain").Ready, true, "sidecar that runs")
		n.want(n.of("a", "probed").Ready, false, "sidecar whose probe fails")
		n.want(n.of("a", "app").State.Running != nil, true, "the app does not wait for readiness of sidecars")
		n.want(n.condition("a", v1.PodReady).Status, v1.ConditionFalse, "Ready")
		time.Sleep(time.Minute)
		n.want(n.condition("a", v1.PodReady).Status, v1.ConditionTrue, "Ready")
	})
}

// A sidecar that crashes after the pod has started is restarted, and the init containers before it are not.
func TestSidecarCrashesLater(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {restartPolicy: OnFailure, initContainers: [
 {name: init, command: ["true"]},
 {name: side, restartPolicy: Always, command: [sh, -c, "sleep 90; exit 0"]},
 {name: late, command: ["true"]}],
 containers: [{name: app, command: [server]}]}}`)
		time.Sleep(20 * time.Minute)
		n.want(len(n.runs("init")), 1, "runs of init")
		n.want(len(n.runs("late")), 1, "runs of late")
		n.want(len(n.runs("app")), 1, "runs of the app")
		n.want(len(n.runs("side")) > 3, true, "the sidecar is restarted")
		n.want(n.status("a").Phase, v1.PodRunning, "phase")
	})
}

// A job whose sidecar fails when it is stopped has succeeded.
func TestJobWithASidecarThatFailsAtItsStop(t *testing.T) {
	for _, policy := range []string{"Never", "OnFailure"} {
		t.Run(policy, func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				n.apply(`{metadata: {name: a}, spec: {restartPolicy: ` + policy + `, initContainers: [{name: side, restartPolicy: Always, command: [sh, -c, "trap 'exit 143' TERM; sleep infinity & wait"]}], containers: [{name: app, command: [sleep, "30"]}]}}`)
				time.Sleep(10 * time.Minute)
				n.want(n.status("a").Phase, v1.PodSucceeded, "phase")
				n.want(len(n.runs("side")), 1, "runs of the sidecar")
				n.want(n.ended("a", "side").ExitCode, 143, "exit code of the sidecar")
			})
		})
	}
}

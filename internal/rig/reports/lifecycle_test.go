//go:build linux

package reports

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod/shutdown"
)

// serve returns a program that serves HTTP on port 8080 until it receives a signal, and exits with 0.
func serve(handler http.HandlerFunc) critest.Program {
	return func(ctx context.Context, c *critest.Command) int {
		l, err := c.Listen(8080)
		if err != nil {
			return 1
		}
		server := &http.Server{Handler: handler}
		go server.Serve(l)
		defer server.Close()
		select {
		case <-c.Signals:
			return 0
		case <-ctx.Done():
			return 137
		}
	}
}

// A handler that ends the process it belongs to, as "nginx -s quit" does, is no failed handler.
func TestPreStopThatEndsTheProcess(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 30, containers: [{name: app,
  command: [sh, -c, "trap 'exit 7' TERM; sleep infinity & wait"],
  lifecycle: {preStop: {exec: {command: [sh, -c, "kill 1; sleep 60"]}}}}]}}`)
		time.Sleep(time.Minute)
		begun := time.Now()
		n.delete(pod, 30)
		time.Sleep(time.Minute)
		n.want(n.runs("app")[0].ExitCode, 7, "exit code")
		n.want(n.runs("app")[0].Ended.Sub(begun) < 2*time.Second, true, "stopped at once")
		n.want(n.told("FailedPreStopHook"), "[]", "warnings")
	})
}

func TestPreStopHasTheGracePeriodOfTheDeletion(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 30, containers: [{name: app,
  command: [sh, -c, "trap 'exit 0' TERM; sleep infinity & wait"],
  lifecycle: {preStop: {exec: {command: [sleep, "15"]}}}}]}}`)
		time.Sleep(time.Minute)
		begun := time.Now()
		n.delete(pod, 30)
		time.Sleep(time.Minute)
		n.want(n.runs("app")[0].Ended.Sub(begun), 15*time.Second, "time of the stop")
		n.want(n.runs("app")[0].ExitCode, 0, "exit code")
		n.want(n.told("FailedPreStopHook"), "[]", "warnings")
	})
}

func TestPodEndsWithItsHandlerAndProcess(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 10, containers: [{name: app,
  command: [sh, -c, "trap 'exit 0' TERM; sleep infinity & wait"], lifecycle: {preStop: {exec: {command: [sleep, "2"]}}}}]}}`)
		time.Sleep(time.Minute)
		n.delete(pod, 10)
		time.Sleep(3 * time.Second)
		n.want(n.status("a").Phase, v1.PodSucceeded, "phase 3 s after the deletion")
		n.want(len(n.Journal().Of(critest.StopPodSandbox)), 1, "stops of the sandbox")
	})
}

// A preStop handler over HTTP reaches the container before its signal, over TLS too, and the sandbox stays until all containers have ended.
func TestPreStopOverHTTP(t *testing.T) {
	var closed, early atomic.Int32
	c := critest.Config{Programs: map[string]critest.Program{"web": serve(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/close" && r.Header.Get("X-Token") == "t" {
			closed.Add(1)
		} else {
			early.Add(1)
		}
	})}}
	on(t, c, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {containers: [
 {name: plain, command: [web], lifecycle: {preStop: {httpGet: {path: /v1/close, port: 8080, httpHeaders: [{name: X-Token, value: t}]}}}},
 {name: tls, command: [server], lifecycle: {preStop: {httpGet: {path: /v1/close, port: 8443, scheme: HTTPS}}}},
 {name: slow, command: [sh, -c, "trap 'sleep 5; exit 0' TERM; sleep infinity & wait"]}]}}`)
		time.Sleep(time.Minute)
		n.delete(pod, 30)
		time.Sleep(time.Minute)
		n.want(closed.Load(), 1, "calls of the handler")
		n.want(early.Load(), 0, "other calls")
		n.want(n.told("FailedPreStopHook"), "[]", "warnings")
		stops, sandbox := n.Journal().Of(critest.StopContainer), n.Journal().Of(critest.StopPodSandbox)
		for _, s := range stops {
			if s.End.After(sandbox[0].Start) {
				n.Errorf("the sandbox was stopped at %v, before %v", sandbox[0].Start, s)
			}
		}
	})
}

// While a container of a pod whose deadline has passed stops, the pod has not failed yet, and then it reports how the container ended.
func TestDeadlineReportsTheEndOfContainers(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {activeDeadlineSeconds: 20, terminationGracePeriodSeconds: 60, initContainers: [{name: init, command: [sleep, "1"]}], containers: [
  {name: app, command: [sh, -c, "trap 'sleep 10; exit 4' TERM; sleep infinity & wait"]}]}}`)
		time.Sleep(2 * time.Minute)
		for _, s := range n.past("a") {
			if s.Phase == v1.PodFailed && (s.ContainerStatuses[0].State.Terminated == nil || s.InitContainerStatuses[0].State.Running != nil) {
				n.Errorf("failed while its container is %+v", s.ContainerStatuses[0].State)
			}
		}
		n.want(n.status("a").Reason, "DeadlineExceeded", "reason")
		n.want(n.ended("a", "app").ExitCode, 4, "exit code")
		n.want(len(n.runs("app")), 1, "runs")
	})
}

// A deadline that passes during an init container ends it, and no later container starts.
func TestDeadlineDuringInitialization(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {activeDeadlineSeconds: 20, restartPolicy: OnFailure, initContainers: [{name: init, command: [sh, -c, "trap 'exit 0' TERM; sleep infinity & wait"]}], containers: [{name: app, command: [server]}]}}`)
		time.Sleep(2 * time.Minute)
		n.want(n.status("a").Phase, v1.PodFailed, "phase")
		n.want(n.status("a").Reason, "DeadlineExceeded", "reason")
		n.want(n.of("a", "init").State.Terminated != nil, true, "the init container has ended")
		n.want(len(n.runs("app")), 0, "runs of the app")
		n.want(len(n.runs("init")), 1, "runs of the init container")
	})
}

// A pod that its source has forgotten is stopped although the runtime refuses stops for a while.
func TestForgottenPodIsStoppedWhenTheRuntimeCan(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server]}]}}`)
		time.Sleep(time.Minute)
		fault, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Times: faults.Always, Err: status.Error(codes.Internal, "shim is busy")})
		if err != nil {
			n.Fatal(err)
		}
		n.delete(pod, 0)
		n.pods.Delete(pod.UID)
		time.Sleep(3 * time.Minute)
		fault.Remove()
		time.Sleep(5 * time.Minute)
		for _, p := range n.runs("app") {
			n.want(p.Ended.IsZero(), false, "the process has ended")
		}
		n.want(len(n.agent.Pods()), 0, "pods of the agent")
	})
}

// A container whose record an administrator removes after its success does not run again.
func TestRemovedRecordOfASuccess(t *testing.T) {
	for _, policy := range []string{"OnFailure", "Never"} {
		t.Run(policy, func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				n.apply(`{metadata: {name: a}, spec: {restartPolicy: ` + policy + `, containers: [{name: job, command: [sleep, "5"]}, {name: app, command: [server]}]}}`)
				time.Sleep(time.Minute)
				if err := n.Remove(n.runs("job")[0].ContainerID); err != nil {
					n.Fatal(err)
				}
				time.Sleep(time.Hour)
				n.restart(time.Minute)
				time.Sleep(time.Hour)
				n.want(len(n.runs("job")), 1, "runs")
				n.want(n.ended("a", "job").ExitCode, 0, "exit code")
			})
		})
	}
}

// A runtime that wrongly denies a container for a while does not keep it from being restarted later.
func TestContainerThatTheRuntimeDenies(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server]}]}}`)
		time.Sleep(time.Minute)
		show := n.Hide(n.runs("app")[0].ContainerID, faults.InStatus)
		time.Sleep(time.Minute)
		if err := n.ExitContainer(n.runs("app")[0].ContainerID, critest.Exit{Code: 1}); err != nil {
			n.Fatal(err)
		}
		time.Sleep(time.Minute)
		show()
		time.Sleep(10 * time.Minute)
		n.want(n.of("a", "app").State.Running != nil, true, "it runs")
		n.NoDoubleRuns()
	})
}

// In a shutdown of the node probes stop, statuses are reported for critical pods too, and static pods without a priority stop last.
func TestShutdownOfTheNode(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: web}, spec: {priority: 0, terminationGracePeriodSeconds: 30, containers: [{name: web, command: [sh, -c, "trap 'rm /live; sleep 15; exit 0' TERM; touch /live; sleep infinity & wait"],
  livenessProbe: {exec: {command: [test, -e, /live]}, periodSeconds: 1, failureThreshold: 2}}]}}`)
		n.apply(`{metadata: {name: critical}, spec: {priorityClassName: system-cluster-critical, containers: [{name: critical, command: [sh, -c, "trap 'exit 0' TERM; sleep infinity & wait"]}]}}`)
		time.Sleep(time.Minute)
		begun := time.Now()
		if err := n.agent.Shutdown(n.Context(), shutdown.Policy{GracePeriod: time.Minute, CriticalGracePeriod: 20 * time.Second}); err != nil {
			n.Error(err)
		}
		n.want(n.runs("web")[0].Ended.Sub(begun), 15*time.Second, "time of web")
		n.want(n.runs("web")[0].ExitCode, 0, "exit code of web")
		n.want(n.runs("critical")[0].Ended.Before(n.runs("web")[0].Ended), false, "critical ends last")
		for _, pod := range []string{"web", "critical"} {
			n.want(n.status(pod).Reason, "Terminated", "reason of "+pod)
			n.want(n.of(pod, pod).State.Terminated != nil, true, pod+" is reported as ended")
			n.want(n.condition(pod, v1.PodReady).Status, v1.ConditionFalse, "Ready of "+pod)
		}
	})
}

// If a probe kills a container, the status reports the exit code of its process, and an event reports the reason.
func TestKilledByAProbe(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 3, containers: [{name: app, command: [sh, -c, "trap '' TERM; sleep infinity"],
  livenessProbe: {exec: {command: [test, -e, /never]}, periodSeconds: 5, failureThreshold: 1}}]}}`)
		time.Sleep(30 * time.Second)
		n.want(n.last("a", "app").ExitCode, 137, "exit code")
		n.wantIn(strings.Join(n.told("Killing"), "\n"), "failed liveness probe", "event")
	})
}

// A large or unread answer of a handler holds nothing up.
func TestPreStopWithAnEndlessAnswer(t *testing.T) {
	c := critest.Config{Programs: map[string]critest.Program{"web": serve(func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < 1<<14; i++ {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<10)); err != nil {
				return
			}
		}
	})}}
	on(t, c, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 30, containers: [{name: app, command: [web], lifecycle: {preStop: {httpGet: {path: /, port: 8080}}}}]}}`)
		time.Sleep(time.Minute)
		begun := time.Now()
		n.delete(pod, 30)
		time.Sleep(time.Minute)
		n.want(n.runs("app")[0].Ended.Sub(begun) < 5*time.Second, true, "stopped in time")
		n.want(n.runs("app")[0].ExitCode, 0, "exit code")
	})
}

// A pod that arrives while the node shuts down does not start.
func TestPodThatArrivesDuringAShutdown(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: web}, spec: {priority: 0, terminationGracePeriodSeconds: 30, containers: [{name: web, command: [sh, -c, "trap 'sleep 15; exit 0' TERM; sleep infinity & wait"]}]}}`)
		time.Sleep(time.Minute)
		done := make(chan error)
		go func() {
			done <- n.agent.Shutdown(n.Context(), shutdown.Policy{GracePeriod: time.Minute, CriticalGracePeriod: 20 * time.Second})
		}()
		time.Sleep(5 * time.Second)
		n.apply(`{metadata: {name: late}, spec: {containers: [{name: late, command: [server]}]}}`)
		if err := <-done; err != nil {
			n.Error(err)
		}
		time.Sleep(time.Minute)
		n.want(len(n.runs("late")), 0, "runs of the late pod")
		n.want(n.status("late").Phase, v1.PodFailed, "its phase")
	})
}

// A pod that the node has evicted is not started again, and stays evicted for the next agent.
func TestEvictedPodOverARestart(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 60, containers: [{name: app, command: [sh, -c, "trap 'exit 5' TERM; sleep infinity & wait"]}]}}`)
		time.Sleep(time.Minute)
		if err := n.agent.KillPod(n.Context(), "a", podworkers.StopRequest{GracePeriodSeconds: new(int64(5)), Report: &podworkers.StopReport{Reason: "Evicted", Message: "x"}}); err != nil {
			n.Fatal(err)
		}
		n.restart(time.Second)
		time.Sleep(10 * time.Minute)
		n.want(n.status("a").Phase, v1.PodFailed, "phase")
		n.want(n.status("a").Reason, "Evicted", "reason")
		n.want(n.ended("a", "app").ExitCode, 5, "exit code")
		n.want(len(n.runs("app")), 1, "runs")
	})
}

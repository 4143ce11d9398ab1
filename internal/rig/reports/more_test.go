//go:build linux

package reports

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod/agent"
)

// A runtime that learns after an exit that it was an OOM kill: the reason that it reports then is the one of the status.
func TestT4_ReasonOfAnExitComesLater(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {restartPolicy: Never, containers: [{name: app, command: [sh, -c, "sleep 5; exit 137"]}, {name: other, command: [server]}]}}`)
		time.Sleep(5*time.Second + 100*time.Millisecond)
		n.want(n.ended("a", "app").Reason, "Error", "reason at first")
		if err := n.EditContainer(n.runs("app")[0].ContainerID, func(s *runtimeapi.ContainerStatus) { s.Reason = "OOMKilled" }); err != nil {
			n.Fatal(err)
		}
		if err := n.ExitContainer(n.runs("other")[0].ContainerID, critest.Exit{Code: 1}); err != nil {
			n.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		n.want(n.status("a").Phase, v1.PodFailed, "phase")
		n.want(n.ended("a", "app").Reason, "OOMKilled", "reason")
		n.want(n.ended("a", "app").ExitCode, 137, "exit code")
	})
}

// A pod is deleted although its containers cannot be created, or their images not pulled.
func TestDeletionOfAPodThatCannotStart(t *testing.T) {
	for name, fault := range map[string]faults.Fault{
		"create":  {Match: faults.Match{Method: critest.CreateContainer}, Err: status.Error(codes.Unknown, "no space left on device")},
		"start":   {Match: faults.Match{Method: critest.StartContainer}, Err: status.Error(codes.Unknown, "exec format error")},
		"pull":    {Match: faults.Match{Method: critest.PullImage}, Err: status.Error(codes.Unknown, "manifest unknown")},
		"inspect": {Match: faults.Match{Method: critest.ImageStatus}, Err: status.Error(codes.Unknown, "database is locked")},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				fault.Times = faults.Always
				if _, err := n.Inject(fault); err != nil {
					n.Fatal(err)
				}
				pod := n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server]}]}}`)
				time.Sleep(10 * time.Minute)
				n.delete(pod, 30)
				time.Sleep(10 * time.Second)
				n.want(n.status("a").Phase == v1.PodFailed || n.status("a").Phase == v1.PodSucceeded, true, fmt.Sprint("the pod has ended: ", n.status("a").Phase))
				n.pods.Delete(pod.UID)
				time.Sleep(10 * time.Second)
				n.want(len(n.agent.Pods()), 0, "pods")
			})
		})
	}
}

// All regular containers crash while a sidecar runs, also after a restart of the agent: they are restarted.
func TestAllCrashBesideASidecar(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint(restart), func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				n.apply(`{metadata: {name: a}, spec: {initContainers: [{name: side, restartPolicy: Always, command: [server], startupProbe: {exec: {command: ["true"]}, periodSeconds: 1}}], containers: [{name: app, command: [server]}, {name: other, command: [server]}]}}`)
				time.Sleep(time.Minute)
				if restart {
					n.restart(30 * time.Second)
					time.Sleep(time.Minute)
				}
				for _, c := range []string{"app", "other"} {
					if err := n.ExitContainer(n.runs(c)[0].ContainerID, critest.Exit{Code: 1}); err != nil {
						n.Fatal(err)
					}
				}
				time.Sleep(time.Minute)
				for _, c := range []string{"app", "other"} {
					n.want(n.of("a", c).RestartCount, 1, "restarts of "+c)
					n.want(n.of("a", c).State.Running != nil, true, c+" runs")
				}
				n.want(len(n.runs("side")), 1, "runs of the sidecar")
			})
		})
	}
}

// A sandbox whose creation fails at first, or times out, is made in the end, and the init containers run in it.
func TestSandboxIsMadeInTheEnd(t *testing.T) {
	for name, fault := range map[string]faults.Fault{
		"network":  {Err: status.Error(codes.Unknown, "cni plugin not initialized")},
		"deadline": {When: faults.After, Err: status.Error(codes.DeadlineExceeded, "context deadline exceeded")},
		"shim":     {Err: status.Error(codes.Unavailable, "ttrpc: closed")},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				fault.Match, fault.Times = faults.Match{Method: critest.RunPodSandbox}, 4
				if _, err := n.Inject(fault); err != nil {
					n.Fatal(err)
				}
				n.apply(`{metadata: {name: a}, spec: {restartPolicy: OnFailure, initContainers: [{name: init, command: ["true"]}], containers: [{name: app, command: [sleep, "30"]}]}}`)
				time.Sleep(10 * time.Minute)
				n.want(n.status("a").Phase, v1.PodSucceeded, "phase")
				n.want(len(n.runs("init")), 1, "runs of the init container")
				n.want(len(n.runs("app")), 1, "runs of the app")
			})
		})
	}
}

// Usage of pods, also of static ones and after a restart of the agent: CPU as a rate, memory, and only pods that run.
func TestUsageOfPods(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server]}]}}`)
		n.apply(`{metadata: {name: done}, spec: {restartPolicy: Never, containers: [{name: job, command: ["true"]}]}}`)
		time.Sleep(time.Minute)
		n.restart(30 * time.Second)
		time.Sleep(time.Minute)
		for range 2 {
			var pods []*runtime.PodStatus
			synctest.Wait()
			n.mu.Lock()
			cache := n.agent.Cache()
			n.mu.Unlock()
			for _, uid := range cache.UIDs() {
				if pod, err := cache.Get(uid); err == nil && pod != nil {
					pods = append(pods, pod)
				}
			}
			s, err := n.agent.Stats().Read(n.Context(), pods)
			if err != nil {
				n.Fatal(err)
			}
			time.Sleep(20 * time.Second)
			for _, p := range s.Pods {
				if p.UID != "a" {
					continue
				}
				if len(p.Containers) != 1 || p.Containers[0].Memory == nil || p.Memory == nil || p.CPU == nil {
					n.Errorf("the usage of the pod is %+v", p)
				}
			}
			n.want(len(s.Pods) > 0, true, "pods with usage")
		}
	})
}

// A pod with a sidecar that is not ready: its readiness follows the sidecar, and its job ends nevertheless.
func TestUnreadySidecarOfAJob(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {restartPolicy: Never, initContainers: [{name: side, restartPolicy: Always, command: [sh, -c, "trap '' TERM; sleep infinity"], readinessProbe: {exec: {command: ["false"]}, periodSeconds: 1}}], terminationGracePeriodSeconds: 7, containers: [{name: app, command: [sleep, "30"]}]}}`)
		time.Sleep(20 * time.Second)
		n.want(n.condition("a", v1.PodReady).Status, v1.ConditionFalse, "Ready")
		time.Sleep(30 * time.Second)
		n.want(n.status("a").Phase, v1.PodSucceeded, "phase")
		n.want(n.ended("a", "side").ExitCode, 137, "exit code of the sidecar")
	})
}

// A preStop handler of a container that is restarted by its liveness probe runs before the stop, and counts for its grace.
func TestPreStopBeforeALivenessRestart(t *testing.T) {
	var calls atomic.Int32
	web := serve(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stop" {
			calls.Add(1)
		} else {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	on(t, critest.Config{Programs: map[string]critest.Program{"web": web}}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [web], lifecycle: {preStop: {httpGet: {path: /stop, port: 8080}}}, livenessProbe: {httpGet: {path: /live, port: 8080}, periodSeconds: 5, failureThreshold: 2}}]}}`)
		time.Sleep(19 * time.Second)
		n.want(n.of("a", "app").RestartCount > 0, true, "it was restarted")
		n.want(calls.Load()-n.of("a", "app").RestartCount <= 1, true, "calls of the handler, one of which may still be running")
		n.wantIn(strings.Join(n.told("Unhealthy"), "\n"), "HTTP 500", "event")
	})
}

// A gRPC probe of a service that is not serving, and of one that is not known, fails.
func TestGRPCProbe(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server], readinessProbe: {grpc: {port: 9000}, periodSeconds: 1}}]}}`)
		n.apply(`{metadata: {name: b}, spec: {containers: [{name: closed, command: [sleep, infinity], readinessProbe: {grpc: {port: 9000}, periodSeconds: 1}}]}}`)
		time.Sleep(10 * time.Second)
		n.want(n.of("a", "app").Ready, true, "a server is ready")
		n.want(n.of("b", "closed").Ready, false, "a closed port is ready")
		n.want(len(n.told("Unhealthy")) > 0, true, "an event")
	})
}

// A shutdown in which a critical pod does not stop ends in time, and a pod that arrives meanwhile is rejected.
func TestContainersOfOnePodStopAtOnce(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		var list []string
		for i := range 5 {
			list = append(list, fmt.Sprintf(`{name: c%d, command: [sh, -c, "trap 'sleep 10; exit 0' TERM; sleep infinity & wait"]}`, i))
		}
		pod := n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 30, containers: [` + strings.Join(list, ", ") + `]}}`)
		time.Sleep(time.Minute)
		begun := time.Now()
		n.delete(pod, 30)
		time.Sleep(time.Minute)
		for i := range 5 {
			n.want(n.runs(fmt.Sprintf("c%d", i))[0].Ended.Sub(begun), 10*time.Second, "time of the stop")
		}
	})
}

// A program that writes without a pause and is rotated loses no line, and its log is bounded.
func TestLogOfAChattyContainer(t *testing.T) {
	on(t, critest.Config{}, func(c *agent.Config) {
		c.LogPolicy.MaxSize, c.LogPolicy.MaxFiles = 4<<10, 3
	}, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "i=0; while true; do echo line $i; i=$(expr $i + 1); sleep 1; done"]}]}}`)
		time.Sleep(20 * time.Minute)
		size := logSize(n, "app")
		n.want(size < 64<<10, true, fmt.Sprint("bytes of logs: ", size))
		n.want(n.of("a", "app").RestartCount, 0, "restarts")
	})
}

// A file of an optional ConfigMap that does not exist: the container starts, and has the file at its restart after the ConfigMap was made.
func TestFileOfAMissingOptionalConfigMap(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {volumes: [{name: v, configMap: {name: c, optional: true}}], containers: [{name: app, command: [sh, -c, "if test -e /conf/f; then cat /conf/f > /dev/termination-log; fi; sleep 300; exit 1"], volumeMounts: [{name: v, mountPath: /conf/f, subPath: f}]}]}}`)
		time.Sleep(time.Minute)
		n.want(n.of("a", "app").State.Running != nil, true, "it runs without the ConfigMap")
		n.objects.set("c", map[string]string{"f": "x"})
		time.Sleep(20 * time.Minute)
		n.want(n.last("a", "app").Message, "x", "file")
	})
}

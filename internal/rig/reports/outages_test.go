//go:build linux

package reports

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/probe"
)

// A sidecar of a pod that is deleted while it initializes gets its signal at once.
func TestSidecarOfAPodThatInitializes(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {initContainers: [{name: side, restartPolicy: Always, command: [sh, -c, "trap 'exit 0' TERM; sleep infinity & wait"]},
  {name: init, command: [sh, -c, "trap 'exit 0' TERM; sleep infinity & wait"]}, {name: later, restartPolicy: Always, command: [server]}], containers: [{name: app, command: [server]}]}}`)
		time.Sleep(time.Minute)
		began := time.Now()
		n.delete(pod, 60)
		time.Sleep(2 * time.Minute)
		n.want(n.runs("side")[0].ExitCode, 0, "exit code of the sidecar")
		n.want(n.runs("side")[0].Ended.Sub(began) < 5*time.Second, true, "it ends at once")
		n.want(len(n.runs("app")), 0, "runs of the app")
	})
}

// A runtime that fails to start a created container, or that restarts before it starts it, delays the start.
func TestCreatedContainerStartsLater(t *testing.T) {
	for name, spec := range map[string]string{
		"init": `initContainers: [{name: c, command: ["true"]}], containers: [{name: app, command: [server]}]`,
		"app":  `containers: [{name: c, command: [server]}]`,
	} {
		for fault, restart := range map[string]bool{"failure": false, "restart": true} {
			t.Run(name+" "+fault, func(t *testing.T) {
				on(t, critest.Config{}, nil, func(n *node) {
					if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.StartContainer, Container: "c"}, Times: 2, Err: status.Error(codes.Unknown, "failed to create shim task")}); err != nil {
						n.Fatal(err)
					}
					n.apply(`{metadata: {name: a}, spec: {` + spec + `}}`)
					time.Sleep(time.Second)
					if restart {
						if err := n.Restart(faults.Restart{Down: 5 * time.Second}); err != nil {
							n.Fatal(err)
						}
					}
					time.Sleep(3 * time.Minute)
					n.want(n.status("a").Phase, v1.PodRunning, "phase")
					n.want(len(n.runs("c")), 1, "runs")
				})
			})
		}
	}
}

// A change of the resources ends the back-off of a container that crashes.
func TestResizeEndsTheCrashBackOff(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		manifest := func(cpu string) string {
			return `{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "exit 1"], resources: {limits: {cpu: ` + cpu + `}}, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]}]}}`
		}
		n.apply(manifest("100m"))
		time.Sleep(22 * time.Minute)
		before := len(n.runs("app"))
		n.apply(manifest("200m"))
		time.Sleep(10 * time.Second)
		n.want(len(n.runs("app")) > before, true, "it runs soon after the change")
	})
}

// A manifest with the status of a pod that an API server had runs like one without.
func TestManifestWithAStatus(t *testing.T) {
	onStatic(t, critest.Config{}, func(n *node, set func(...string)) {
		set(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server]}]}, status: {phase: Failed, reason: Evicted, containerStatuses: [{name: app, state: {terminated: {exitCode: 1}}}]}}`)
		time.Sleep(time.Minute)
		n.want(len(n.runs("app")), 1, "runs")
		n.want(n.status(n.only()).Phase, v1.PodRunning, "phase")
	})
}

// A runtime that has lost all it had: no phase goes back, counts go on, and the last run is reported as lost.
func TestRuntimeIsWiped(t *testing.T) {
	for name, newAgent := range map[string]bool{"same agent": false, "next agent": true} {
		t.Run(name, func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "sleep 300; exit 3"]}]}}`)
				time.Sleep(8 * time.Minute)
				if newAgent {
					n.Kill()
				}
				if err := n.Restart(faults.Restart{Down: 5 * time.Second, Sandboxes: faults.EffectRemoved, Containers: faults.EffectRemoved}); err != nil {
					n.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				if newAgent {
					n.start()
				}
				time.Sleep(2 * time.Minute)
				for _, s := range n.past("a")[2:] {
					if s.Phase == v1.PodPending && len(n.past("a")) > 4 && s.ContainerStatuses[0].RestartCount > 0 {
						n.Errorf("the phase went back: %+v", s)
					}
				}
				n.want(n.of("a", "app").RestartCount, 2, "restart count")
				n.want(n.of("a", "app").State.Running != nil, true, "it runs")
				n.want(n.last("a", "app").ExitCode != 0, true, "the last run has not succeeded")
			})
		})
	}
}

// The last state stays although the runtime has removed the record of the run before.
func TestLastStateOutlivesItsRecord(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "test -e /nothing || sleep 30; exit 3"]}]}}`)
		time.Sleep(35 * time.Second)
		n.want(n.last("a", "app").ExitCode, 3, "exit code before the removal")
		if err := n.Remove(n.runs("app")[0].ContainerID); err != nil {
			n.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		n.want(n.last("a", "app").ExitCode, 3, "exit code after it")
		n.restart(time.Second)
		time.Sleep(5 * time.Second)
		n.want(n.last("a", "app").ExitCode, 3, "exit code with the next agent")
	})
}

// A process that ends while the runtime restarts during its stop ends its pod; so does one whose end is not noticed at first.
func TestRuntimeRestartsDuringAStop(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "trap 'sleep 5; exit 0' TERM; sleep infinity & wait"]}]}}`)
		time.Sleep(time.Minute)
		n.delete(pod, 30)
		time.Sleep(2 * time.Second)
		if err := n.Restart(faults.Restart{Down: 20 * time.Second, Disconnect: true}); err != nil {
			n.Fatal(err)
		}
		time.Sleep(time.Minute)
		n.want(n.ended("a", "app").ExitCode, 0, "exit code")
		n.want(n.status("a").Phase, v1.PodSucceeded, "phase")
	})
}

// A sandbox whose shim was killed: it is not ready, its container seems to run, and stops fail for some time.
func TestShimIsKilled(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 5, containers: [{name: app, command: [server]}]}}`)
		time.Sleep(time.Minute)
		if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Times: 3, Err: status.Error(codes.Unknown, "ttrpc: closed")}); err != nil {
			n.Fatal(err)
		}
		if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: 3, Err: status.Error(codes.Unknown, "failed to destroy network for sandbox: neither iptables nor ip6tables usable")}); err != nil {
			n.Fatal(err)
		}
		if err := n.EditSandbox(n.runs("app")[0].SandboxID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }); err != nil {
			n.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		n.want(len(n.runs("app")), 2, "runs")
		n.want(n.status("a").Phase, v1.PodRunning, "phase")
		n.want(n.of("a", "app").Ready, true, "ready")
	})
}

// A container that ends while the runtime is down restarts when it is back.
func TestEndWhileTheRuntimeIsDown(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "sleep 70; exit 4"]}]}}`)
		time.Sleep(time.Minute)
		if err := n.Restart(faults.Restart{Down: time.Minute, Disconnect: true}); err != nil {
			n.Fatal(err)
		}
		time.Sleep(65 * time.Second)
		n.want(len(n.runs("app")), 2, "runs")
		n.want(n.last("a", "app").ExitCode, 4, "exit code of the last run")
	})
}

// A pod that names a ConfigMap that does not exist creates no container until it does.
func TestPodBeforeItsConfigMap(t *testing.T) {
	for name, use := range map[string]string{
		"variable": `containers: [{name: app, command: [server], env: [{name: A, valueFrom: {configMapKeyRef: {name: conf, key: f}}}]}]`,
		"envFrom":  `containers: [{name: app, command: [server], envFrom: [{configMapRef: {name: conf}}]}]`,
		"volume":   `volumes: [{name: v, configMap: {name: conf}}], containers: [{name: app, command: [server], volumeMounts: [{name: v, mountPath: /v}]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				n.apply(`{metadata: {name: a}, spec: {` + use + `}}`)
				time.Sleep(time.Minute)
				n.want(n.Journal().Count(critest.CreateContainer), 0, "creations")
				n.wantIn(fmt.Sprint(n.told("Failed"), n.told("FailedMount")), "conf", "events")
				n.objects.set("conf", map[string]string{"f": "x"})
				time.Sleep(3 * time.Minute)
				n.want(n.status("a").Phase, v1.PodRunning, "phase")
			})
		})
	}
}

// Probes use no proxy of the agent's environment, and try all addresses of a name.
func TestProbesGoStraightToThePod(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://192.0.2.1:9")
	}
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 on this machine")
	}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	checker, err := probe.NewChecker(probe.CheckerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	port := intstr.FromInt(listener.Addr().(*net.TCPAddr).Port)
	hosts := []string{"::1"}
	if text, err := os.ReadFile("/etc/hosts"); err == nil && strings.Contains(string(text), "::1") {
		hosts = append(hosts, "localhost")
	}
	for _, host := range hosts {
		for kind, handler := range map[string]v1.ProbeHandler{
			"http": {HTTPGet: &v1.HTTPGetAction{Host: host, Path: "/", Port: port}},
			"tcp":  {TCPSocket: &v1.TCPSocketAction{Host: host, Port: port}},
		} {
			result, err := checker.Probe(t.Context(), probe.Request{Probe: &v1.Probe{ProbeHandler: handler, TimeoutSeconds: 5}, PodIP: "192.0.2.2"})
			if err != nil || result.Outcome != actions.ProbeSuccess {
				t.Errorf("%s %s: %+v, %v", kind, host, result, err)
			}
		}
	}
}

// Values of resources in the downward API: rounded up to the divisor, of huge pages, too, and of the node without limits.
func TestResourcesInTheDownwardAPI(t *testing.T) {
	on(t, critest.Config{}, func(c *agent.Config) { c.Sync.Node.Allocatable = nil }, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server], resources: {requests: {cpu: 125m, memory: 33Mi}, limits: {cpu: 1500m, memory: 64Mi, hugepages-2Mi: 4Mi}}, env: [
 {name: A, valueFrom: {resourceFieldRef: {resource: requests.cpu}}},
 {name: B, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}},
 {name: C, valueFrom: {resourceFieldRef: {resource: limits.cpu}}},
 {name: D, valueFrom: {resourceFieldRef: {resource: requests.memory, divisor: 10Mi}}},
 {name: E, valueFrom: {resourceFieldRef: {resource: limits.hugepages-2Mi, divisor: 1Mi}}},
 {name: F, valueFrom: {resourceFieldRef: {resource: requests.hugepages-2Mi}}}]}]}}`)
		time.Sleep(time.Minute)
		got := map[string]string{}
		for _, e := range created(n, "app").GetEnvs() {
			if len(e.GetKey()) == 1 {
				got[e.GetKey()] = string(e.GetValue())
			}
		}
		n.want(got, map[string]string{"A": "1", "B": "125", "C": "2", "D": "4", "E": "4", "F": "4194304"}, "variables")
	})
}

// A name that the kernel refuses as a hostname keeps the pod from starting, with an event.
func TestFullNameIsTooLong(t *testing.T) {
	on(t, critest.Config{}, func(c *agent.Config) {
		c.Sync.Node.DNS = func() sandbox.NodeDNS { return sandbox.NodeDNS{ClusterDomain: "cluster.local"} }
	}, func(n *node) {
		long := strings.Repeat("x", 50)
		n.apply(`{metadata: {name: a}, spec: {hostname: ` + long + `, subdomain: sub, setHostnameAsFQDN: true, containers: [{name: app, command: [server]}]}}`)
		n.apply(`{metadata: {name: b}, spec: {hostname: short, subdomain: sub, setHostnameAsFQDN: true, containers: [{name: other, command: [server]}]}}`)
		time.Sleep(time.Minute)
		n.want(n.status("a").Phase, v1.PodPending, "phase")
		n.wantIn(fmt.Sprint(n.told("FailedCreatePodSandBox")), long, "events")
		sandboxes := n.Journal().Of(critest.RunPodSandbox)
		n.want(sandboxes[len(sandboxes)-1].Request().(*runtimeapi.RunPodSandboxRequest).GetConfig().GetHostname(), "short.sub.default.svc.cluster.local", "hostname")
	})
}

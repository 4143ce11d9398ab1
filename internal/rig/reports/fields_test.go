//go:build linux

package reports

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod/agent"
)

// The downward API in volumes: labels and annotations are quoted, files follow the pod, and limits default to those of the node.
func TestDownwardVolume(t *testing.T) {
	on(t, critest.Config{}, func(c *agent.Config) {
		c.Sync.Node.Allocatable = v1.ResourceList{"cpu": resource.MustParse("3"), "memory": resource.MustParse("1Gi"), "ephemeral-storage": resource.MustParse("10Gi")}
	}, func(n *node) {
		pod := n.apply(`{metadata: {name: a, labels: {b: "2", a: "1"}, annotations: {k: "line\nwith \"quotes\""}}, spec: {volumes: [{name: v, downwardAPI: {items: [
 {path: labels, fieldRef: {fieldPath: metadata.labels}}, {path: annotations, fieldRef: {fieldPath: metadata.annotations}}, {path: one, fieldRef: {fieldPath: "metadata.annotations['none']"}},
 {path: cpu, resourceFieldRef: {containerName: app, resource: limits.cpu}}, {path: mem, resourceFieldRef: {containerName: app, resource: limits.memory, divisor: 1Mi}}, {path: req, resourceFieldRef: {containerName: app, resource: requests.cpu, divisor: 1m}}]}}],
 containers: [{name: app, command: [server], resources: {requests: {cpu: 250m}}, volumeMounts: [{name: v, mountPath: /v}]}]}}`)
		time.Sleep(time.Minute)
		file := func(name string) string {
			text, _ := exec(n, "app", "cat", "/v/"+name)
			return text
		}
		n.want(file("labels"), "a=\"1\"\nb=\"2\"", "labels")
		n.wantIn(file("annotations"), `k="line\nwith \"quotes\""`, "annotations")
		n.want(file("one"), "", "an annotation that does not exist")
		n.want(file("cpu"), "3", "limits.cpu")
		n.want(file("mem"), "1024", "limits.memory")
		n.want(file("req"), "250", "requests.cpu")
		pod = pod.DeepCopy()
		pod.Labels["c"] = "3"
		n.update(pod)
		time.Sleep(2 * time.Minute)
		n.want(file("labels"), "a=\"1\"\nb=\"2\"\nc=\"3\"", "labels after a change")
	})
}

func TestDownwardVariables(t *testing.T) {
	on(t, critest.Config{PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.88.0.0/16"), netip.MustParsePrefix("fd00::/64")}}, nil, func(n *node) {
		n.apply(`{metadata: {name: a, annotations: {k: v}}, spec: {nodeName: node-1, serviceAccountName: sa, restartPolicy: Never, containers: [{name: app, command: [sh, -c, "env > /dev/termination-log"], env: [
 {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}, {name: HOST, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}, {name: HOSTS, valueFrom: {fieldRef: {fieldPath: status.hostIPs}}},
 {name: SA, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}, {name: NS, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}, {name: NONE, valueFrom: {fieldRef: {fieldPath: "metadata.labels['none']"}}}]}]}}`)
		time.Sleep(time.Minute)
		text := "\n" + n.ended("a", "app").Message
		for _, want := range []string{"IP=10.88.0.2", "IPS=10.88.0.2,fd00::2", "HOST=192.0.2.1", "HOSTS=192.0.2.1", "SA=sa", "NODE=node-1", "NS=default", "NONE="} {
			n.wantIn(text, "\n"+want+"\n", "environment")
		}
	})
}

// Termination messages: long ones are cut, empty ones come from the log after a failure only, also when the log was rotated.
func TestTerminationMessages(t *testing.T) {
	for name, test := range map[string]struct {
		script, policy string
		check          func(n *node, message string)
	}{
		"long":              {`i=0; while [ $i -lt 600 ]; do echo 0123456789 >> /dev/termination-log; i=$(expr $i + 1); done; exit 1`, "File", func(n *node, m string) { n.want(len(m), 4096, "length") }},
		"log after failure": {`echo one; echo two >&2; exit 1`, "FallbackToLogsOnError", func(n *node, m string) { n.want(m, "one\ntwo\n", "message") }},
		"log after success": {`echo one; exit 0`, "FallbackToLogsOnError", func(n *node, m string) { n.want(m, "", "message") }},
		"file first":        {`echo log; echo file > /dev/termination-log; exit 1`, "FallbackToLogsOnError", func(n *node, m string) { n.want(m, "file\n", "message") }},
		"long log": {`i=0; while [ $i -lt 200 ]; do echo line $i; i=$(expr $i + 1); done; exit 1`, "FallbackToLogsOnError", func(n *node, m string) {
			n.want(strings.Count(m, "\n"), 80, "lines")
			n.wantIn(m, "line 199\n", "message")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				n.apply(`{metadata: {name: a}, spec: {restartPolicy: Never, containers: [{name: app, terminationMessagePolicy: ` + test.policy + `, command: [sh, -c, "` + test.script + `"]}]}}`)
				time.Sleep(time.Minute)
				test.check(n, n.ended("a", "app").Message)
			})
		})
	}
}

// A container with a message path of its own, in a directory that does not exist in its image.
func TestTerminationMessagePath(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, terminationMessagePath: /tmp/deep/message, command: [sh, -c, "echo run >> /tmp/deep/message; sleep 30; exit 1"]}]}}`)
		time.Sleep(5 * time.Minute)
		n.want(n.last("a", "app").Message, "run\n", "message of one run")
	})
}

// Items of volumes.
func TestItemsOfVolumes(t *testing.T) {
	for name, test := range map[string]struct{ volume, path, content, message string }{
		"item":                        {`{name: v, configMap: {name: c, items: [{key: k, path: deep/er/f}]}}`, "deep/er/f", "x", ""},
		"missing item":                {`{name: v, configMap: {name: c, items: [{key: none, path: f}]}}`, "", "", "none"},
		"missing item, optional":      {`{name: v, configMap: {name: c, optional: true, items: [{key: none, path: f}, {key: k, path: g}]}}`, "g", "x", ""},
		"missing object, optional":    {`{name: v, secret: {secretName: none, optional: true}}`, "", "", ""},
		"missing object":              {`{name: v, secret: {secretName: none}}`, "", "", "none"},
		"projected, one is missing":   {`{name: v, projected: {sources: [{configMap: {name: none, optional: true}}, {secret: {name: c, items: [{key: k, path: s}]}}, {downwardAPI: {items: [{path: d/name, fieldRef: {fieldPath: metadata.name}}]}}]}}`, "d/name", "a", ""},
		"projected, the later counts": {`{name: v, projected: {sources: [{configMap: {name: c, items: [{key: k, path: f}]}}, {configMap: {name: d, items: [{key: k, path: f}]}}]}}`, "f", "y", ""},
		"key with dots":               {`{name: v, configMap: {name: dots}}`, "..x", "", "..x"},
		"a key that looks hidden":     {`{name: v, configMap: {name: hidden}}`, ".x", "h", ""},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				n.objects.set("c", map[string]string{"k": "x"})
				n.objects.set("d", map[string]string{"k": "y"})
				n.objects.set("hidden", map[string]string{".x": "h"})
				n.objects.set("dots", map[string]string{"..x": "h"})
				n.apply(`{metadata: {name: a}, spec: {volumes: [` + test.volume + `], containers: [{name: app, command: [server], volumeMounts: [{name: v, mountPath: /v}]}]}}`)
				time.Sleep(time.Minute)
				if test.message != "" {
					n.want(n.of("a", "app").State.Running == nil, true, "it does not run")
					n.wantIn(strings.Join(n.told("FailedMount"), "\n")+fmt.Sprint(n.of("a", "app").State), test.message, "message")
					return
				}
				n.want(n.of("a", "app").State.Running != nil, true, "it runs")
				if test.path != "" {
					text, _ := exec(n, "app", "cat", "/v/"+test.path)
					n.want(text, test.content, "content")
				}
			})
		})
	}
}

// Types of hostPath volumes.
func TestHostPathTypes(t *testing.T) {
	for name, test := range map[string]struct {
		kind, path string
		runs       bool
	}{
		"anything that is missing":    {"", "none", true},
		"directory":                   {"Directory", "dir", true},
		"directory that is a file":    {"Directory", "file", false},
		"directory that is missing":   {"Directory", "none", false},
		"directory that is made":      {"DirectoryOrCreate", "new/deep", true},
		"file":                        {"File", "file", true},
		"file that is made":           {"FileOrCreate", "newfile", true},
		"file in a missing directory": {"FileOrCreate", "none/newfile", false},
		"socket that is a file":       {"Socket", "file", false},
		"a link to a directory":       {"Directory", "link", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			os.Mkdir(filepath.Join(dir, "dir"), 0o755)
			os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o644)
			os.Symlink(filepath.Join(dir, "dir"), filepath.Join(dir, "link"))
			on(t, critest.Config{}, nil, func(n *node) {
				n.apply(`{metadata: {name: a}, spec: {volumes: [{name: v, hostPath: {path: ` + filepath.Join(dir, test.path) + `, type: "` + test.kind + `"}}], containers: [{name: app, command: [server], volumeMounts: [{name: v, mountPath: /v}]}]}}`)
				time.Sleep(time.Minute)
				n.want(n.of("a", "app").State.Running != nil, test.runs, "it runs")
				if !test.runs {
					n.want(len(n.told("FailedMount")) > 0, true, "an event")
				}
			})
		})
	}
}

// Probes of pods with IPv6 addresses, of named ports, with hosts and headers of their own.
func TestAddressesOfProbes(t *testing.T) {
	var hosts atomic.Value
	web := serve(func(w http.ResponseWriter, r *http.Request) {
		hosts.Store(r.Host + " " + r.UserAgent() + " " + r.Header.Get("Accept"))
	})
	for name, test := range map[string]struct{ cidr, probe, want string }{
		"IPv6":             {"fd00::/64", `{httpGet: {port: 8080}}`, "[fd00::2]:8080 kube-probe/"},
		"TCP over IPv6":    {"fd00::/64", `{tcpSocket: {port: 8080}}`, ""},
		"lower-case host":  {"10.1.0.0/16", `{httpGet: {port: 8080, httpHeaders: [{name: host, value: x.example}]}}`, "x.example kube-probe/"},
		"agent of its own": {"10.1.0.0/16", `{httpGet: {port: 8080, httpHeaders: [{name: User-Agent, value: mine}]}}`, "10.1.0.2:8080 mine "},
		"no accept":        {"10.1.0.0/16", `{httpGet: {port: 8080, httpHeaders: [{name: Accept, value: ""}]}}`, "10.1.0.2:8080 kube-probe/"},
	} {
		t.Run(name, func(t *testing.T) {
			hosts.Store("")
			on(t, critest.Config{Programs: map[string]critest.Program{"web": web}, PodCIDRs: []netip.Prefix{netip.MustParsePrefix(test.cidr)}}, nil, func(n *node) {
				n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [web], readinessProbe: ` + test.probe + `}]}}`)
				time.Sleep(30 * time.Second)
				n.want(n.of("a", "app").Ready, true, "ready")
				n.want(strings.HasPrefix(hosts.Load().(string), test.want), true, "host: "+hosts.Load().(string))
			})
		})
	}
}

// successThreshold counts again after each failure, and a probe that times out has failed.
func TestThresholdsOfProbes(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server], readinessProbe: {exec: {command: [test, -e, /ready]}, periodSeconds: 10, successThreshold: 3, failureThreshold: 2}}, {name: slow, command: [server], livenessProbe: {exec: {command: [sleep, "5"]}, timeoutSeconds: 2, periodSeconds: 10, failureThreshold: 3}}]}}`)
		time.Sleep(20 * time.Second)
		exec(n, "app", "touch", "/ready")
		time.Sleep(19 * time.Second)
		n.want(n.of("a", "app").Ready, false, "after at most two successes")
		time.Sleep(12 * time.Second)
		n.want(n.of("a", "app").Ready, true, "after three successes")
		exec(n, "app", "rm", "/ready")
		time.Sleep(9 * time.Second)
		n.want(n.of("a", "app").Ready, true, "after at most one failure")
		time.Sleep(12 * time.Second)
		n.want(n.of("a", "app").Ready, false, "after two failures")
		n.want(n.of("a", "slow").RestartCount > 0, true, "the slow one was restarted")
	})
}

// A readiness probe waits for the startup probe, a liveness probe too, and a failed startup probe restarts the container.
func TestStartupHoldsOthers(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, command: [sh, -c, "sleep 45; touch /up; sleep infinity"],
  startupProbe: {exec: {command: [test, -e, /up]}, periodSeconds: 10, failureThreshold: 6}, livenessProbe: {exec: {command: [test, -e, /up]}, periodSeconds: 1, failureThreshold: 1}, readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1}},
 {name: never, command: [server], startupProbe: {exec: {command: ["false"]}, periodSeconds: 5, failureThreshold: 4}}]}}`)
		time.Sleep(30 * time.Second)
		n.want(n.of("a", "app").Ready, false, "ready before it has started")
		n.want(*n.of("a", "app").Started, false, "started")
		n.want(n.of("a", "never").RestartCount, 1, "restarts of never")
		time.Sleep(2 * time.Minute)
		n.want(n.of("a", "app").RestartCount, 0, "restarts")
		n.want(n.of("a", "app").Ready, true, "ready")
	})
}

// The images of containers: Never without the image waits, Always pulls for each start, and a digest is used as it is.
func TestPullPolicies(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: never}, spec: {containers: [{name: never, imagePullPolicy: Never, image: "registry.test/none:1", command: [server]}]}}`)
		n.apply(`{metadata: {name: always}, spec: {containers: [{name: always, imagePullPolicy: Always, image: "registry.test/app:1", command: [sh, -c, "sleep 60; exit 1"]}]}}`)
		n.apply(`{metadata: {name: latest}, spec: {containers: [{name: latest, image: registry.test/latest, command: [sh, -c, "sleep 60; exit 1"]}]}}`)
		time.Sleep(5 * time.Minute)
		n.want(n.waits("never", "never").Reason, "ErrImageNeverPull", "reason")
		pulls := map[string]int{}
		for _, c := range n.Journal().Of(critest.PullImage) {
			pulls[c.PodUID]++
		}
		n.want(pulls["never"], 0, "pulls")
		n.want(pulls["always"], len(n.runs("always")), "pulls with Always")
		n.want(pulls["latest"], len(n.runs("latest")), "pulls of latest")
	})
}

// While a registry is down, Always waits although the image is present, and reports the registry's reason.
func TestAlwaysWhileTheRegistryIsDown(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, imagePullPolicy: Always, image: "registry.invalid/app:1", command: [server]}]}}`)
		time.Sleep(2 * time.Minute)
		n.want(n.waits("a", "app").Reason, "ImagePullBackOff", "reason")
		n.wantIn(n.waits("a", "app").Message, "registry.invalid", "message")
		n.want(n.of("a", "app").Image, "registry.invalid/app:1", "image")
		n.want(n.Journal().Count(critest.PullImage) < 6, true, "pulls in two minutes")
	})
}

// A pod whose sandbox cannot be made reports why, and runs when it can.
func TestSandboxThatCannotBeMade(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		fault, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Times: faults.Always, Err: errNetwork})
		if err != nil {
			n.Fatal(err)
		}
		pod := n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server]}]}}`)
		time.Sleep(10 * time.Minute)
		n.want(n.waits("a", "app").Reason, "ContainerCreating", "reason")
		n.wantIn(strings.Join(n.told("FailedCreatePodSandBox"), "\n"), "no IP addresses available", "events")
		n.want(n.condition("a", v1.PodReadyToStartContainers).Status, v1.ConditionFalse, "PodReadyToStartContainers")
		n.want(n.Journal().Count(critest.RunPodSandbox) < 10, true, "tries")
		n.delete(pod, 30)
		time.Sleep(time.Minute)
		n.want(n.status("a").Phase == v1.PodFailed || n.status("a").Phase == v1.PodSucceeded, true, fmt.Sprint("phase ", n.status("a").Phase))
		fault.Remove()
		n.apply(`{metadata: {name: b}, spec: {containers: [{name: app, command: [server]}]}}`)
		time.Sleep(time.Minute)
		n.want(n.status("b").Phase, v1.PodRunning, "phase")
	})
}

// A container-level restart policy and its rules.
func TestRestartRulesOfContainers(t *testing.T) {
	var init, rule atomic.Int32
	program := func(runs *atomic.Int32) critest.Program {
		return func(context.Context, *critest.Command) int {
			time.Sleep(5 * time.Second)
			if runs.Add(1) < 3 {
				return 42
			}
			return 0
		}
	}
	on(t, critest.Config{Programs: map[string]critest.Program{"flaky1": program(&init), "flaky2": program(&rule)}}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {restartPolicy: Never, initContainers: [{name: init, restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}], command: [flaky1]}], containers: [
 {name: rule, restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}], command: [flaky2]},
 {name: always, restartPolicy: Always, command: [sh, -c, "sleep 20; exit 0"]},
 {name: never, command: [sh, -c, "sleep 20; exit 42"]}]}}`)
		time.Sleep(10 * time.Minute)
		n.want(len(n.runs("init")), 3, "runs of init")
		n.want(len(n.runs("rule")), 3, "runs of rule")
		n.want(len(n.runs("always")) > 4, true, "always restarts")
		n.want(len(n.runs("never")), 1, "runs of never")
		n.want(n.status("a").Phase, v1.PodRunning, "phase")
	})
}

var errNetwork = status.Error(codes.Unknown, "failed to setup network: no IP addresses available in range")

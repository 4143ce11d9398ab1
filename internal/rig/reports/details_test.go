//go:build linux

package reports

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/agent"
)

// An exec probe that is running when its container ends is no failure of the next one, and no event.
func TestProbeOfAContainerThatEnds(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "sleep 20; exit 0"],
  readinessProbe: {exec: {command: [sleep, "3"]}, periodSeconds: 4, timeoutSeconds: 10}, livenessProbe: {exec: {command: [sleep, "3"]}, periodSeconds: 4, timeoutSeconds: 10, failureThreshold: 1}}]}}`)
		time.Sleep(10 * time.Minute)
		n.want(n.told("Unhealthy"), "[]", "events about health")
		n.want(n.told("Killing"), "[]", "kills")
	})
}

// The hosts file that a container has mounted stays complete while other containers of its pod start and restart.
func TestHostsFileStaysComplete(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {hostname: web, subdomain: sub, containers: [{name: app, command: [server]}, {name: crash, command: [sh, -c, "sleep 1; exit 1"]}]}}`)
		time.Sleep(30 * time.Second)
		path := ""
		for _, m := range created(n, "app").GetMounts() {
			if m.GetContainerPath() == "/etc/hosts" {
				path = m.GetHostPath()
			}
		}
		before, err := os.Stat(path)
		if err != nil {
			n.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		after, err := os.Stat(path)
		n.want(err, nil, "the file is there")
		n.want(os.SameFile(before, after) && before.ModTime().Equal(after.ModTime()), true, "it was not written again")
	})
}

// The resolver of a pod has each search domain once, and as many as 32.
func TestSearchDomains(t *testing.T) {
	on(t, critest.Config{}, func(c *agent.Config) {
		c.Sync.Node.DNS = func() sandbox.NodeDNS {
			return sandbox.NodeDNS{ClusterDomain: "cluster.local", ClusterServers: []string{"192.0.2.53"}, Servers: []string{"192.0.2.54"},
				Searches: []string{"default.svc.cluster.local", "svc.cluster.local", "cluster.local", "4.test", "5.test", "6.test", "7.test"}}
		}
	}, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {dnsPolicy: ClusterFirst, containers: [{name: app, command: [server]}]}}`)
		time.Sleep(time.Minute)
		dns := n.Journal().Of(critest.RunPodSandbox)[0].Request().(*runtimeapi.RunPodSandboxRequest).GetConfig().GetDnsConfig()
		n.want(strings.Join(dns.GetSearches(), " "), "default.svc.cluster.local svc.cluster.local cluster.local 4.test 5.test 6.test 7.test", "searches")
		n.want(n.told("DNSConfigForming"), "[]", "warnings")
	})
}

// A sandbox that is lost again and again is made again with growing pauses.
func TestSandboxIsLostAgainAndAgain(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server]}]}}`)
		for range 1800 {
			time.Sleep(time.Second)
			runs := n.runs("app")
			if len(runs) == 0 || !runs[len(runs)-1].Ended.IsZero() {
				continue
			}
			if err := n.EditSandbox(runs[len(runs)-1].SandboxID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }); err != nil {
				n.Fatal(err)
			}
		}
		n.want(n.Journal().Count(critest.RunPodSandbox) < 20, true, "few sandboxes in half an hour")
	})
}

// A new pod has the files of an immutable ConfigMap that was deleted and made again; the pod that runs keeps its own.
func TestImmutableConfigMapIsMadeAgain(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		manifest := func(name string) string {
			return `{metadata: {name: ` + name + `}, spec: {volumes: [{name: v, configMap: {name: conf}}], containers: [{name: ` + name + `, command: [server], volumeMounts: [{name: v, mountPath: /v}], env: [{name: A, valueFrom: {configMapKeyRef: {name: conf, key: f}}}]}]}}`
		}
		n.objects.setImmutable("conf", map[string]string{"f": "old"})
		n.apply(manifest("a"))
		time.Sleep(time.Minute)
		n.objects.setImmutable("conf", map[string]string{"f": "new"})
		n.apply(manifest("b"))
		time.Sleep(10 * time.Minute)
		for container, want := range map[string]string{"a": "old", "b": "new"} {
			for _, m := range created(n, container).GetMounts() {
				if m.GetContainerPath() == "/v" {
					got, err := os.ReadFile(filepath.Join(m.GetHostPath(), "f"))
					n.want(string(got), want, fmt.Sprintf("file of %s, %v", container, err))
				}
			}
		}
	})
}

// A pod that was never ready is not ready with the next agent before its probe has succeeded.
func TestUnreadyOverARestart(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server], readinessProbe: {exec: {command: ["false"]}, periodSeconds: 30, initialDelaySeconds: 30}}]}}`)
		for range 5 {
			time.Sleep(20 * time.Second)
			n.restart(time.Second)
		}
		time.Sleep(time.Minute)
		for _, s := range n.past("a") {
			if condition(s, v1.PodReady).Status == v1.ConditionTrue {
				n.Errorf("it is ready: %+v", s)
			}
		}
	})
}

// Without limits the downward API has what the node can allocate, in variables, too.
func TestLimitsOfTheNodeInVariables(t *testing.T) {
	on(t, critest.Config{}, func(c *agent.Config) {
		c.Sync.Node.Allocatable = v1.ResourceList{v1.ResourceMemory: resource.MustParse("3Gi"), v1.ResourceCPU: resource.MustParse("2")}
	}, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server], env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.memory}}}, {name: B, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}, {name: C, valueFrom: {resourceFieldRef: {resource: requests.memory}}}]}]}}`)
		time.Sleep(time.Minute)
		got := map[string]string{}
		for _, e := range created(n, "app").GetEnvs() {
			if len(e.GetKey()) == 1 {
				got[e.GetKey()] = string(e.GetValue())
			}
		}
		n.want(got, map[string]string{"A": "3221225472", "B": "2", "C": "0"}, "variables")
	})
}

// Directories of volumes, and of subPaths in them, have the pod's group and pass it on.
func TestGroupOfDirectories(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.objects.set("s", map[string]string{"f": "x"})
		n.apply(`{metadata: {name: a}, spec: {securityContext: {fsGroup: 77, runAsUser: 35}, volumes: [{name: e, emptyDir: {}}, {name: s, secret: {secretName: s}}], containers: [{name: app, command: [server],
  volumeMounts: [{name: e, mountPath: /e}, {name: e, mountPath: /sub, subPath: a/b}, {name: s, mountPath: /s}]}]}}`)
		time.Sleep(time.Minute)
		for _, dir := range []string{"kubernetes.io~empty-dir/e", "kubernetes.io~empty-dir/e/a", "kubernetes.io~empty-dir/e/a/b", "kubernetes.io~secret/s"} {
			info, err := os.Stat(filepath.Join(n.Root, "pods", "a", "volumes", dir))
			if err != nil {
				n.Error(err)
				continue
			}
			n.want(info.Mode()&fs.ModeSetgid != 0 && info.Mode().Perm()&0o050 == 0o050, true, dir+" is open to its group")
		}
	})
}

// A preStop handler that takes its whole grace period leaves the process two seconds; what it leaves is the process's.
func TestPreStopUsesTheGracePeriod(t *testing.T) {
	for name, tc := range map[string]struct {
		handler string
		least   time.Duration
		most    time.Duration
	}{
		"short": {"30", 55 * time.Second, 63 * time.Second},
		"long":  {"300", 58 * time.Second, 63 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				pod := n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 60, containers: [{name: app, command: [sh, -c, "trap '' TERM; sleep infinity"], lifecycle: {preStop: {exec: {command: [sleep, "` + tc.handler + `"]}}}}]}}`)
				time.Sleep(time.Minute)
				began := time.Now()
				n.delete(pod, 60)
				time.Sleep(5 * time.Minute)
				took := n.runs("app")[0].Ended.Sub(began)
				n.want(took >= tc.least && took <= tc.most, true, "it took "+took.String())
			})
		})
	}
}

// Of entrypoint, arguments and directory, the image has what the pod leaves out.
func TestCommandOfTheImage(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: command, command: [server]}, {name: args, args: [x]}, {name: none}, {name: empty, command: [], args: [x, ""], workingDir: /w}]}}`)
		time.Sleep(time.Minute)
		for container, want := range map[string]string{"command": "[server] [] ", "args": "[] [x] ", "none": "[] [] ", "empty": "[] [x ] /w"} {
			c := created(n, container)
			n.want(fmt.Sprint(c.GetCommand(), " ", c.GetArgs(), " ", c.GetWorkingDir()), want, container)
		}
	})
}

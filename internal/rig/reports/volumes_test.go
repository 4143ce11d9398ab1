//go:build linux

package reports

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/agent"
)

// A restart of a container does not mount a directory in the place of a socket or file that has gone from the node: it waits until it is back.
func TestHostPathIsGoneAtARestart(t *testing.T) {
	for _, kind := range []string{"Socket", "File"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "s")
			create := func() {
				if kind == "File" {
					os.WriteFile(path, []byte("x"), 0o600)
					return
				}
				l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
				if err != nil {
					t.Fatal(err)
				}
				l.SetUnlinkOnClose(false)
				l.Close()
			}
			create()
			on(t, critest.Config{}, nil, func(n *node) {
				n.apply(`{metadata: {name: a}, spec: {volumes: [{name: v, hostPath: {path: ` + path + `, type: ` + kind + `}}], containers: [{name: app, command: [sh, -c, "sleep 60; exit 1"], volumeMounts: [{name: v, mountPath: /s}]}]}}`)
				time.Sleep(30 * time.Second)
				n.want(n.of("a", "app").State.Running != nil, true, "it runs")
				if err := os.Remove(path); err != nil {
					n.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				n.want(n.of("a", "app").State.Running == nil, true, "it does not run without its "+kind)
				n.want(len(n.runs("app")), 1, "runs")
				if _, err := os.Stat(path); !os.IsNotExist(err) {
					n.Errorf("something was made at the path: %v", err)
				}
				create()
				time.Sleep(6 * time.Minute)
				n.want(len(n.runs("app")) > 1, true, "it runs again")
			})
		})
	}
}

// The downward API in a volume follows a resize.
func TestDownwardVolumeAfterAResize(t *testing.T) {
	on(t, critest.Config{}, allocator(t, t.TempDir(), "4"), func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {volumes: [{name: v, downwardAPI: {items: [{path: cpu, resourceFieldRef: {containerName: app, resource: limits.cpu, divisor: 1m}}]}}],
 containers: [{name: app, command: [server], resources: {requests: {cpu: 100m}, limits: {cpu: 200m}}, volumeMounts: [{name: v, mountPath: /v}]}]}}`)
		time.Sleep(time.Minute)
		text, _ := exec(n, "app", "cat", "/v/cpu")
		n.want(text, "200", "limit")
		pod = pod.DeepCopy()
		pod.Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse("300m")
		n.update(pod)
		time.Sleep(2 * time.Minute)
		text, _ = exec(n, "app", "cat", "/v/cpu")
		n.want(text, "300", "limit after the resize")
		n.want(len(n.runs("app")), 1, "runs")
	})
}

// A container that restarts many times leaves only a few files on the node.
func TestFilesOfManyRestarts(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "echo x > /dev/termination-log; sleep 1; exit 1"]}]}}`)
		time.Sleep(6 * time.Hour)
		n.want(n.of("a", "app").RestartCount > 50, true, "restarts")
		files := 0
		filepath.WalkDir(filepath.Join(n.Root, "pods", "a"), func(_ string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				files++
			}
			return nil
		})
		n.want(files < 20, true, fmt.Sprint("files of the pod: ", files))
		logs, _ := filepath.Glob(filepath.Join(n.Logs, "*", "app", "*"))
		n.want(len(logs) < 10, true, fmt.Sprint("logs: ", len(logs)))
	})
}

// All containers of a pod share the room for messages.
func TestManyTerminationMessages(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		var containers []string
		for i := range 12 {
			containers = append(containers, fmt.Sprintf(`{name: c%d, command: [sh, -c, "i=0; while [ $i -lt 300 ]; do echo 0123456789 >> /dev/termination-log; i=$(expr $i + 1); done"]}`, i))
		}
		n.apply(`{metadata: {name: a}, spec: {restartPolicy: Never, containers: [` + strings.Join(containers, ", ") + `]}}`)
		time.Sleep(time.Minute)
		for _, c := range n.status("a").ContainerStatuses {
			if c.State.Terminated == nil || len(c.State.Terminated.Message) != 1024 {
				n.Errorf("%s: %+v", c.Name, c.State)
			}
		}
	})
}

// Of two sources of a projected volume with one path the later counts, also if it is a token.
func TestProjectedPathsThatAreEqual(t *testing.T) {
	on(t, critest.Config{}, func(c *agent.Config) { c.Sync.Objects.Tokens = tokens{} }, func(n *node) {
		n.objects.set("c", map[string]string{"k": "x"})
		n.apply(`{metadata: {name: a}, spec: {serviceAccountName: sa, volumes: [{name: v, projected: {sources: [{configMap: {name: c, items: [{key: k, path: token}]}}, {serviceAccountToken: {path: token, expirationSeconds: 3600}}]}},
 {name: w, projected: {sources: [{serviceAccountToken: {path: token, expirationSeconds: 3600}}, {configMap: {name: c, items: [{key: k, path: token}]}}]}}], containers: [{name: app, command: [server], volumeMounts: [{name: v, mountPath: /v}, {name: w, mountPath: /w}]}]}}`)
		time.Sleep(time.Minute)
		for _, f := range [][2]string{{"/v/token", "token"}, {"/w/token", "x"}} {
			text, _ := exec(n, "app", "cat", f[0])
			n.want(text, f[1], f[0])
		}
	})
}

// A Secret that is updated is replaced as a whole: a reader sees the old or the new files, and old ones are gone.
func TestUpdateOfAVolumeIsAtomic(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.objects.set("c", map[string]string{"a": "1", "b": "1", "gone": "1"})
		n.apply(`{metadata: {name: a}, spec: {volumes: [{name: v, configMap: {name: c}}], containers: [{name: app, command: [server], volumeMounts: [{name: v, mountPath: /v}]}]}}`)
		time.Sleep(time.Minute)
		dir := filepath.Join(n.Root, "pods", "a", "volumes", "kubernetes.io~configmap", "v")
		before, err := os.Readlink(filepath.Join(dir, "..data"))
		if err != nil {
			n.Fatal(err)
		}
		n.objects.set("c", map[string]string{"a": "2", "b": "2", "new": "2"})
		time.Sleep(2 * time.Minute)
		after, err := os.Readlink(filepath.Join(dir, "..data"))
		if err != nil || after == before {
			n.Errorf("the link is %q before and %q after, %v", before, after, err)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		n.want(len(files), 5, fmt.Sprint("files: ", files))
		if _, err := os.Stat(filepath.Join(dir, before)); !os.IsNotExist(err) {
			n.Errorf("the old version: %v", err)
		}
		n.want(n.condition("a", v1.PodReady).Status, v1.ConditionTrue, "Ready")
	})
}

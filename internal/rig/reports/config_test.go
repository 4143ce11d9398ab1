//go:build linux

package reports

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
)

var errDown = errors.New("connection refused")

// created returns the last request to create a container.
func created(n *node, container string) *runtimeapi.ContainerConfig {
	n.Helper()
	calls := n.Journal().Of(critest.CreateContainer).Container(container)
	if len(calls) == 0 {
		n.Fatalf("%s was not created", container)
	}
	return calls[len(calls)-1].Request().(*runtimeapi.CreateContainerRequest).GetConfig()
}

// Who may run as whom.
func TestRunAsNonRoot(t *testing.T) {
	for name, test := range map[string]struct{ user, context, message string }{
		"root, not asked":              {"", `{}`, ""},
		"root, false":                  {"", `{runAsNonRoot: false}`, ""},
		"root":                         {"", `{runAsNonRoot: true}`, "is root"},
		"a name":                       {"nonroot", `{runAsNonRoot: true}`, "is a name"},
		"a name, and a number":         {"nonroot", `{runAsNonRoot: true, runAsUser: 65532}`, ""},
		"a number":                     {"65532", `{runAsNonRoot: true}`, ""},
		"a number and a group":         {"65532:0", `{runAsNonRoot: true}`, ""},
		"the number of root":           {"0", `{runAsNonRoot: true}`, "is root"},
		"a number, overridden by root": {"65532", `{runAsNonRoot: true, runAsUser: 0}`, "runAsUser 0 is root"},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, critest.Config{Images: []critest.Image{{Name: "registry.test/app:1", User: test.user}}}, nil, func(n *node) {
				n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server], securityContext: ` + test.context + `}]}}`)
				time.Sleep(time.Minute)
				s := n.of("a", "app").State
				switch {
				case test.message == "":
					n.want(s.Running != nil, true, "it runs")
				case s.Waiting == nil:
					n.Errorf("the container is %+v", s)
				default:
					n.want(s.Waiting.Reason, "CreateContainerConfigError", "reason")
					n.wantIn(s.Waiting.Message, test.message, "message")
					n.want(n.Journal().Count(critest.CreateContainer), 0, "creations")
				}
			})
		})
	}
}

// Aliases of hosts are in the hosts file, one line for each address, also in the network of the node.
func TestHostAliases(t *testing.T) {
	for _, network := range []string{"true", "false"} {
		t.Run(network, func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				n.apply(`{metadata: {name: a}, spec: {hostNetwork: ` + network + `, hostAliases: [{ip: 192.0.2.7, hostnames: [foo.local, bar.local]}], containers: [{name: app, command: [server]}]}}`)
				time.Sleep(time.Minute)
				text := ""
				for _, m := range created(n, "app").GetMounts() {
					if m.GetContainerPath() == "/etc/hosts" {
						file, err := os.ReadFile(m.GetHostPath())
						if err != nil {
							n.Fatal(err)
						}
						text = string(file)
					}
				}
				n.wantIn(text, "192.0.2.7\tfoo.local\tbar.local\n", "hosts")
				n.want(strings.Count(text, "192.0.2.7"), 1, "lines of the address")
			})
		})
	}
}

// A volume at /etc/hosts takes the place of the agent's file.
func TestOwnHostsFile(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.objects.set("c", map[string]string{"hosts": "x"})
		n.apply(`{metadata: {name: a}, spec: {volumes: [{name: v, configMap: {name: c}}], containers: [{name: app, command: [server], volumeMounts: [{name: v, mountPath: /etc/hosts, subPath: hosts}]}]}}`)
		time.Sleep(time.Minute)
		count := 0
		for _, m := range created(n, "app").GetMounts() {
			if filepath.Clean(m.GetContainerPath()) == "/etc/hosts" {
				count++
			}
		}
		n.want(count, 1, "mounts at /etc/hosts")
		n.want(n.of("a", "app").State.Running != nil, true, "it runs")
	})
}

// A mount of a directory in an image names that directory, and another image than the container's is pulled for it.
func TestDirectoryOfAnImageVolume(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {volumes: [{name: v, image: {reference: "registry.test/data:1", pullPolicy: IfNotPresent}}], containers: [{name: app, command: [server], volumeMounts: [{name: v, mountPath: /v, subPath: models/small}]}]}}`)
		time.Sleep(time.Minute)
		for _, m := range created(n, "app").GetMounts() {
			if m.GetContainerPath() == "/v" {
				n.want(m.GetImageSubPath(), "models/small", "path in the image")
				n.want(m.GetImage().GetImage() != "", true, "image")
				n.want(m.GetHostPath(), "", "path on the node")
			}
		}
	})
}

// A failed postStart handler is an event of its container, and the container restarts with back-off.
func TestFailedPostStartIsReported(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 2, containers: [{name: app, command: [server], lifecycle: {postStart: {exec: {command: [sh, -c, "echo no database >&2; exit 3"]}}}}]}}`)
		time.Sleep(10 * time.Minute)
		n.want(len(n.told("FailedPostStartHook")) > 1, true, "events")
		n.want(n.events[0].object != "", true, "object")
		w := n.of("a", "app").State.Waiting
		if w == nil || w.Reason != "CrashLoopBackOff" && w.Reason != "PostStartHookError" {
			n.Errorf("the container is %+v", n.of("a", "app").State)
		}
		n.want(len(n.runs("app")) < 10, true, "runs in ten minutes")
		n.want(n.of("a", "app").Ready, false, "ready")
	})
}

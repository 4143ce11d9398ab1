//go:build linux

package reports

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/agent"
)

// A container that mounts one file of a ConfigMap gets the present file at each restart.
func TestSubPathOfAChangedConfigMap(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.objects.set("cfg", map[string]string{"extra.ini": "one", "other": "x"})
		n.apply(`{metadata: {name: a}, spec: {volumes: [{name: v, configMap: {name: cfg}}], containers: [{name: app, command: [sh, -c, "cat /etc/extra.ini > /dev/termination-log; sleep 200; exit 1"],
  volumeMounts: [{name: v, mountPath: /etc/extra.ini, subPath: extra.ini}]}]}}`)
		time.Sleep(10 * time.Second)
		n.objects.set("cfg", map[string]string{"extra.ini": "two", "other": "y"})
		time.Sleep(10 * time.Minute)
		messages := map[string]bool{}
		for _, s := range n.past("a") {
			if last := s.ContainerStatuses[0].LastTerminationState.Terminated; last != nil {
				messages[last.Message] = true
			}
		}
		n.want(messages, map[string]bool{"one": true, "two": true}, "messages")
	})
}

// A subPathExpr that leads out of its volume keeps the container from starting until its variables have changed.
func TestSubPathExprIsMended(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a, annotations: {dir: ../up}}, spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: app,
  env: [{name: DIR, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['dir']"}}}], command: [server], volumeMounts: [{name: v, mountPath: /sub, subPathExpr: $(DIR)}]}]}}`)
		time.Sleep(time.Minute)
		n.want(n.waits("a", "app").Reason, "CreateContainerConfigError", "reason")
		pod = pod.DeepCopy()
		pod.Annotations["dir"] = "inside"
		n.update(pod)
		time.Sleep(10 * time.Minute)
		n.want(n.status("a").Phase, v1.PodRunning, "phase")
	})
}

type tokens struct{}

func (tokens) Token(context.Context, *v1.Pod, *v1.ServiceAccountTokenProjection) (string, error) {
	return "token", nil
}

// Modes and owners of the files of volumes.
func TestModesOfFiles(t *testing.T) {
	const token = `{name: v, projected: {sources: [{serviceAccountToken: {path: f, expirationSeconds: 3600}}]}}`
	for name, test := range map[string]struct {
		pod, volume string
		mode        os.FileMode
		uid, gid    uint32
	}{
		"token of one user":               {`securityContext: {runAsUser: 1234}`, token, 0o600, 1234, 0},
		"token of a group":                {`securityContext: {fsGroup: 77}`, token, 0o640, 0, 77},
		"token of a user and a group":     {`securityContext: {runAsUser: 1234, fsGroup: 77}`, token, 0o640, 1234, 77},
		"token of no user":                {`securityContext: {}`, token, 0o644, 0, 0},
		"secret with a mode, and a user":  {`securityContext: {runAsUser: 1234}`, `{name: v, secret: {secretName: s, defaultMode: 256}}`, 0o400, 0, 0},
		"secret with a mode, and a group": {`securityContext: {runAsUser: 1234, fsGroup: 77}`, `{name: v, secret: {secretName: s, defaultMode: 256}}`, 0o440, 0, 77},
		"mode of an item":                 {`securityContext: {}`, `{name: v, configMap: {name: s, defaultMode: 420, items: [{key: f, path: f, mode: 493}]}}`, 0o755, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, critest.Config{}, func(c *agent.Config) { c.Sync.Objects.Tokens = tokens{} }, func(n *node) {
				n.objects.set("s", map[string]string{"f": "x"})
				n.apply(`{metadata: {name: a}, spec: {serviceAccountName: sa, ` + test.pod + `, volumes: [` + test.volume + `], containers: [{name: app, command: [server], volumeMounts: [{name: v, mountPath: /v}]}]}}`)
				time.Sleep(time.Minute)
				paths, _ := filepath.Glob(filepath.Join(n.Root, "pods", "a", "volumes", "*", "v", "f"))
				if len(paths) != 1 {
					n.Fatalf("files: %v; the pod is %+v", paths, n.status("a"))
				}
				info, err := os.Stat(paths[0])
				if err != nil {
					n.Fatal(err)
				}
				owner := info.Sys().(*syscall.Stat_t)
				n.want(info.Mode().Perm(), test.mode, "mode")
				if os.Getuid() == 0 {
					n.want([2]uint32{owner.Uid, owner.Gid}, [2]uint32{test.uid, test.gid}, "owner")
				}
			})
		})
	}
}

// An ephemeral container of another user does not change the owner of the pod's token.
func TestEphemeralContainerAndTheToken(t *testing.T) {
	on(t, critest.Config{}, func(c *agent.Config) { c.Sync.Objects.Tokens = tokens{} }, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {serviceAccountName: sa, securityContext: {runAsUser: 1234}, volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: f, expirationSeconds: 3600}}]}}], containers: [{name: app, command: [server], volumeMounts: [{name: v, mountPath: /v}]}]}}`)
		time.Sleep(time.Minute)
		pod = pod.DeepCopy()
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", Image: "registry.test/app:1", Command: []string{"server"}, SecurityContext: &v1.SecurityContext{RunAsUser: new(int64(0))}}}}
		n.update(pod)
		time.Sleep(2 * time.Hour)
		info, err := os.Stat(filepath.Join(n.Root, "pods", "a", "volumes", "kubernetes.io~projected", "v", "f"))
		if err != nil {
			n.Fatal(err)
		}
		n.want(info.Mode().Perm(), os.FileMode(0o600), "mode")
	})
}

// Variables: references to later variables stay as they are, the last of equal names counts, names need not be those of a shell.
func TestVariables(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.objects.set("c", map[string]string{"a.b-c": "dots", "1x": "digit", "A": "from"})
		n.apply(`{metadata: {name: a}, spec: {restartPolicy: Never, containers: [{name: app, command: [sh, -c, "env > /dev/termination-log"], envFrom: [{configMapRef: {name: c}}], env: [
 {name: FIRST, value: "host-$(NAME).svc"}, {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: SECOND, value: "host-$(NAME).svc"},
 {name: TWICE, value: one}, {name: TWICE, value: "$(TWICE)-two"}, {name: ESCAPED, value: "$$(NAME)"}, {name: A, value: "$(A)-env"}, {name: BROKEN, value: "$(NAME"}]}]}}`)
		time.Sleep(time.Minute)
		lines := "\n" + n.ended("a", "app").Message
		for _, want := range []string{"FIRST=host-$(NAME).svc", "SECOND=host-a.svc", "TWICE=one-two", "ESCAPED=$(NAME)", "A=from-env", "BROKEN=$(NAME", "a.b-c=dots", "1x=digit"} {
			n.wantIn(lines, "\n"+want+"\n", "environment")
		}
		n.want(strings.Count(lines, "\nTWICE="), 1, "variables with the name TWICE")
	})
}

// A name that is no image is a reason of its own, and the runtime gets no request.
func TestImageNamesThatAreNone(t *testing.T) {
	for _, image := range []string{"https://registry.test/app", "registry.test/App:1", "registry.test/app:"} {
		t.Run(image, func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, image: "` + image + `", command: [server]}]}}`)
				time.Sleep(10 * time.Minute)
				if w := n.of("a", "app").State.Waiting; w == nil || w.Reason != "InvalidImageName" {
					n.Errorf("the container is %+v", n.of("a", "app").State)
				}
				n.want(n.Journal().Count(critest.PullImage), 0, "pulls")
			})
		})
	}
}

// A tag of digits is a tag.
func TestTagOfDigits(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, image: "registry.test/app:1315693", command: [server]}]}}`)
		time.Sleep(time.Minute)
		n.want(n.status("a").Phase, v1.PodRunning, "phase")
	})
}

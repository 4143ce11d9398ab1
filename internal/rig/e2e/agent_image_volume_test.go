package e2e

import (
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// TestImageVolume: an image, or a directory of it, is mounted as a read-only volume. containerd 1.6 does not support such
// mounts: then the agent reports what cannot be mounted, and why.
func TestImageVolume(t *testing.T) {
	onNodes(t, func(n *node) {
		version := must.Get(n.runtime.Version(n.Context(), &runtimeapi.VersionRequest{}))(n)
		a := n.start("-drain")
		p := a.pod(n, "image-volume", `
restartPolicy: Never
containers:
- name: app
  image: localhost/busybox:e2e
  command: [sh, -c, "test -x /image/bin/busybox && test -x /below/busybox && ! touch /image/bin/new"]
  volumeMounts:
  - {name: image, mountPath: /image}
  - {name: image, mountPath: /below, subPath: bin}
volumes:
- {name: image, image: {reference: "localhost/busybox:e2e", pullPolicy: Never}}
`)
		if strings.HasPrefix(strings.TrimPrefix(version.GetRuntimeVersion(), "v"), "1.") {
			p.event("Failed", "it mounts images, as the volumes image: a runtime that knows no such mounts, such as containerd before 2.1, cannot make it")
			p.saidWaiting("CreateContainerError")
			return
		}
		p.ended()
		if app := p.exited("app", 0); app.GetExitCode() != 0 {
			n.Errorf("app has ended with %d: %s", app.GetExitCode(), app.GetMessage())
		}
	})
}

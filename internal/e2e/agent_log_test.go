package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
)

// awaitLog waits until a log has so many lines.
func (p *pod) awaitLog(c *runtimeapi.ContainerStatus, count int) (lines []string) {
	p.Helper()
	p.eventually(func() error {
		lines = p.log(c)
		if len(lines) < count {
			return fmt.Errorf("the log has %q", lines)
		}
		return nil
	})
	return lines
}

// Log shippers know the paths of logs, and the kubelet's names in them.
func logs(n *node, a *agent) {
	p := a.pod(n, "logs", `
restartPolicy: OnFailure
volumes: [{name: scratch, emptyDir: {}}]
containers:
- name: app
  image: localhost/busybox:e2e
  volumeMounts: [{name: scratch, mountPath: /scratch}]
  command: [sh, -c, "[ -e /scratch/x ] && { echo second; exit 0; }; touch /scratch/x; echo first; echo problem >&2; exit 1"]
`)
	runs := p.history("app", 2)
	p.saidPhase(v1.PodSucceeded)
	if got := p.awaitLog(runs[0], 2); !slices.Contains(got, "first") || !slices.Contains(got, "problem") {
		n.Errorf("the first log: %q", got)
	}
	if got := p.awaitLog(runs[1], 1); !slices.Equal(got, []string{"second"}) {
		n.Errorf("the second log: %q", got)
	}
	if got, want := runs[1].GetLogPath(), p.logPath(runs[1]); got != want {
		n.Errorf("the runtime writes to %s, not %s", got, want)
	}
}

func terminationMessage(n *node, a *agent) {
	p := a.pod(n, "message", `
restartPolicy: Never
containers:
- name: file
  image: localhost/busybox:e2e
  command: [sh, -c, "echo some output; echo -n out of tea > /dev/termination-log; exit 3"]
- name: path
  image: localhost/busybox:e2e
  command: [sh, -c, "echo -n all well > /tmp/last"]
  terminationMessagePath: /tmp/last
- name: log
  image: localhost/busybox:e2e
  command: [sh, -c, "echo the last words; exit 4"]
  terminationMessagePolicy: FallbackToLogsOnError
`)
	status := p.saidPhase(v1.PodFailed)
	for i, want := range []string{"out of tea", "all well", "the last words\n"} {
		c := status.ContainerStatuses[slices.IndexFunc(status.ContainerStatuses, func(s v1.ContainerStatus) bool {
			return s.Name == []string{"file", "path", "log"}[i]
		})]
		if end := c.State.Terminated; end == nil || end.Message != want {
			n.Errorf("%s: %+v, not the message %q", c.Name, c.State, want)
		}
	}
	uid := p.exited("file", 0).GetLabels()[runtime.LabelPodUID]
	if text, err := os.ReadFile(filepath.Join(n.root, "pods", uid, "containers", "file", "00000000")); string(text) != "out of tea" {
		n.Logf("the file holds %q, %v", text, err)
	}
}

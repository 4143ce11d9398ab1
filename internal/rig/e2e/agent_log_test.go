package e2e

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
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

// With the restart policy OnFailure a container runs until it succeeds. Log shippers depend on the paths of logs, and on the kubelet's names in them.
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
	p.ended()
	if last := p.runs("app"); len(last) == 0 || last[len(last)-1].GetId() != runs[1].GetId() || last[len(last)-1].GetExitCode() != 0 || runs[0].GetExitCode() != 1 {
		n.Errorf("runs %v, want the last to be %s with exit code 0, after one with exit code 1", last, runs[1].GetId())
	}
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
	want := map[string]string{"file": "out of tea", "path": "all well", "log": "the last words\n"}
	if got := messages(status); !maps.Equal(got, want) {
		n.Errorf("messages %q, not %q", got, want)
	}
}

func messages(status *v1.PodStatus) map[string]string {
	messages := map[string]string{}
	for _, c := range status.ContainerStatuses {
		if c.State.Terminated != nil {
			messages[c.Name] = c.State.Terminated.Message
		}
	}
	return messages
}

package clustertest_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/modules/cluster/clustertest"
	"github.com/podsync/podsync/modules/cluster/internal/clientlog"
)

func TestMain(m *testing.M) { os.Exit(clientlog.Run(m)) }

const web = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 20
  containers:
  - name: app
    image: nginx
    ports: [{name: http, containerPort: 8080}]
    readinessProbe: {httpGet: {path: /ready, port: http}}
    livenessProbe: {tcpSocket: {port: 8080}}
    startupProbe: {grpc: {port: 9090}}
    lifecycle: {postStart: {httpGet: {path: /, port: http, scheme: HTTPS}}}
`

func start(t *testing.T, c clustertest.Config, test func(t *testing.T, c *clustertest.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, clustertest.Start(t, c)) })
}

func TestPodsRun(t *testing.T) {
	start(t, clustertest.Config{Nodes: 2}, func(t *testing.T, c *clustertest.Cluster) {
		c.ApplyYAML(t, web)
		c.WaitFor(t, "default/web", clustertest.Ready, time.Minute)
		if err := c.Pod("default/web").OOMKill("app"); err != nil {
			t.Fatal(err)
		}
		c.WaitFor(t, "default/web", clustertest.That("restarted after an OOM kill", func(p *v1.Pod) bool {
			s := p.Status.ContainerStatuses
			return len(s) == 1 && s[0].Ready && s[0].RestartCount == 1 && s[0].LastTerminationState.Terminated.Reason == "OOMKilled"
		}), time.Minute)
		out, err := c.Pod("default/web").Exec(t.Context(), "app", "echo", "hello")
		if err != nil || strings.TrimSpace(string(out)) != "hello" {
			t.Errorf("exec: %q, %v, want %q", out, err, "hello")
		}
		c.NoDoubleRuns(t)
	})
}

package clustertest_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/modules/cluster/clustertest"
	"github.com/podsync/podsync/modules/cluster/internal/clientlog"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
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
		must.Do(t, c.Pod("default/web").OOMKill("app"))
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

const sleeper = `
apiVersion: v1
kind: Pod
metadata: {name: job}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 20
  containers:
  - {name: app, image: busybox, command: [sh, -c, "echo begun; sleep 600; echo done"]}
`

// A killed agent reports nothing, and the next agent adopts the container that kept running.
func TestKilledAgent(t *testing.T) {
	start(t, clustertest.Config{}, func(t *testing.T, c *clustertest.Cluster) {
		c.ApplyYAML(t, sleeper)
		c.WaitFor(t, "default/job", clustertest.Running, time.Minute)
		c.Node("n1").Kill()
		time.Sleep(time.Hour)
		c.WaitFor(t, "default/job", clustertest.Running, time.Second)
		must.Do(t, c.Node("n1").Start())
		c.WaitFor(t, "default/job", clustertest.Succeeded, time.Minute)
		log, err := c.Clientset().CoreV1().Pods("default").GetLogs("job", &v1.PodLogOptions{}).DoRaw(t.Context())
		if err != nil || string(log) != "begun\ndone\n" {
			t.Errorf("the log is %q, %v, want %q", log, err, "begun\ndone\n")
		}
		c.NoDoubleRuns(t)
	})
}

// After PowerOff the containers are lost, and the agent reports that.
func TestPowerOff(t *testing.T) {
	start(t, clustertest.Config{}, func(t *testing.T, c *clustertest.Cluster) {
		c.ApplyYAML(t, sleeper)
		c.WaitFor(t, "default/job", clustertest.Running, time.Minute)
		must.Do(t, c.Node("n1").PowerOff())
		must.Do(t, c.Node("n1").Start())
		c.WaitFor(t, "default/job", clustertest.Failed, time.Minute)
		c.NoDoubleRuns(t)
	})
}

// Pods keep running while the API server is unavailable, and their changes are reported afterwards.
func TestUnavailable(t *testing.T) {
	start(t, clustertest.Config{}, func(t *testing.T, c *clustertest.Cluster) {
		c.ApplyYAML(t, sleeper)
		c.WaitFor(t, "default/job", clustertest.Running, time.Minute)
		c.APIServer.Unavailable(20 * time.Minute)
		if _, err := c.Clientset().CoreV1().Pods("default").Get(t.Context(), "job", metav1.GetOptions{}); err == nil {
			t.Error("the API server answers, want it unavailable")
		}
		time.Sleep(20 * time.Minute)
		c.WaitFor(t, "default/job", clustertest.Succeeded, time.Minute)
	})
}

// A partitioned node reports nothing; its pods run on, and their end is reported afterwards.
func TestPartition(t *testing.T) {
	start(t, clustertest.Config{}, func(t *testing.T, c *clustertest.Cluster) {
		c.ApplyYAML(t, sleeper)
		c.WaitFor(t, "default/job", clustertest.Running, time.Minute)
		c.Node("n1").Partition(20 * time.Minute)
		time.Sleep(19 * time.Minute)
		c.WaitFor(t, "default/job", clustertest.Running, time.Second)
		c.WaitFor(t, "default/job", clustertest.Succeeded, 2*time.Minute)
		c.NoDoubleRuns(t)
	})
}

// The pods of a node that was deleted are deleted, too.
func TestDeletedNode(t *testing.T) {
	start(t, clustertest.Config{}, func(t *testing.T, c *clustertest.Cluster) {
		c.ApplyYAML(t, sleeper)
		c.WaitFor(t, "default/job", clustertest.Running, time.Minute)
		must.Do(t, c.Node("n1").Delete(t.Context()))
		c.WaitFor(t, "default/job", clustertest.Gone, 2*time.Minute)
	})
}

// A deleted pod has its grace period, and its object is removed once the node has stopped the pod.
func TestGracePeriod(t *testing.T) {
	start(t, clustertest.Config{}, func(t *testing.T, c *clustertest.Cluster) {
		c.ApplyYAML(t, strings.Replace(sleeper, "echo begun;", "trap '' TERM;", 1))
		c.WaitFor(t, "default/job", clustertest.Running, time.Minute)
		began := time.Now()
		must.Do(t, c.Clientset().CoreV1().Pods("default").Delete(t.Context(), "job", metav1.DeleteOptions{}))
		c.WaitFor(t, "default/job", clustertest.Gone, time.Minute)
		if took := time.Since(began); took < 20*time.Second || took > 23*time.Second {
			t.Errorf("the pod was gone after %v, want its grace period of 20s", took)
		}
	})
}

// A pod that fits on no node is marked as unschedulable, and is bound once a node is added.
func TestBinder(t *testing.T) {
	start(t, clustertest.Config{Nodes: -1}, func(t *testing.T, c *clustertest.Cluster) {
		c.ApplyYAML(t, strings.Replace(sleeper, "spec:", "spec:\n  nodeSelector: {disk: ssd}", 1))
		c.WaitFor(t, "default/job", clustertest.That("unschedulable", func(p *v1.Pod) bool {
			return p != nil && len(p.Status.Conditions) > 0 && p.Status.Conditions[0].Reason == v1.PodReasonUnschedulable
		}), time.Minute)
		c.AddNode(t, clustertest.NodeSpec{Name: "plain"})
		c.AddNode(t, clustertest.NodeSpec{Name: "tainted", Labels: map[string]string{"disk": "ssd"}, Taints: []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoSchedule}}})
		time.Sleep(time.Minute)
		c.WaitFor(t, "default/job", clustertest.That("waiting", func(p *v1.Pod) bool { return p.Spec.NodeName == "" }), time.Second)
		c.AddNode(t, clustertest.NodeSpec{Name: "right", Labels: map[string]string{"disk": "ssd"}})
		c.WaitFor(t, "default/job", clustertest.That("running on right", func(p *v1.Pod) bool {
			return p.Spec.NodeName == "right" && p.Status.Phase == v1.PodRunning
		}), time.Minute)
	})
}

// A Job's container without a command runs the program with its image's name.
func TestPrograms(t *testing.T) {
	programs := map[string]critest.Program{"registry.test/worker:1": func(_ context.Context, c *critest.Command) int {
		fmt.Fprintln(c.Stdout, "worked")
		return 3
	}}
	start(t, clustertest.Config{Programs: programs}, func(t *testing.T, c *clustertest.Cluster) {
		c.ApplyYAML(t, `{apiVersion: v1, kind: Pod, metadata: {name: w}, spec: {restartPolicy: Never, containers: [{name: w, image: "registry.test/worker:1"}]}}`)
		c.WaitFor(t, "default/w", clustertest.That("ended with 3", func(p *v1.Pod) bool {
			s := p.Status.ContainerStatuses
			return p.Status.Phase == v1.PodFailed && s[0].State.Terminated.ExitCode == 3
		}), time.Minute)
	})
}

// A recording is a testing.TB that records its failure.
type recording struct {
	testing.TB
	said string
}

func (r *recording) Helper()                           {}
func (r *recording) Errorf(format string, args ...any) { r.said += fmt.Sprintf(format, args...) + "\n" }
func (r *recording) Fatalf(format string, args ...any) { r.Errorf(format, args...); panic(r) }

// fails returns the failure message of a test.
func fails(t *testing.T, test func(t testing.TB)) (said string) {
	r := &recording{TB: t}
	defer func() {
		if p := recover(); p != nil && p != any(r) {
			panic(p)
		}
		said = r.said
	}()
	test(r)
	return r.said
}

// A wait that times out prints the agent's explanation, the pod's status and its events.
func TestFailedWaitExplains(t *testing.T) {
	start(t, clustertest.Config{}, func(t *testing.T, c *clustertest.Cluster) {
		c.ApplyYAML(t, strings.NewReplacer("sleep 600; echo done", "exit 7", "Never", "Always").Replace(sleeper))
		said := fails(t, func(t testing.TB) { c.WaitFor(t, "default/job", clustertest.Succeeded, 10*time.Minute) })
		for _, want := range []string{"pod default/job is not Succeeded after 10m0s", "CrashLoopBackOff", "n1 says:", "back-off", "Warning BackOff", "Normal Pulled"} {
			if !strings.Contains(said, want) {
				t.Errorf("it says\n%s\nwant %q in it", said, want)
			}
		}
	})
}

// NoDoubleRuns fails if two pods with the same name run on two nodes at the same time.
func TestDoubleRunIsFound(t *testing.T) {
	start(t, clustertest.Config{Nodes: 2}, func(t *testing.T, c *clustertest.Cluster) {
		c.ApplyYAML(t, sleeper)
		c.WaitFor(t, "default/job", clustertest.Running, time.Minute)
		pod := must.Get(c.Clientset().CoreV1().Pods("default").Get(t.Context(), "job", metav1.GetOptions{}))(t)
		c.NoDoubleRuns(t)
		c.Node(pod.Spec.NodeName).Kill()
		must.Do(t, c.Clientset().CoreV1().Pods("default").Delete(t.Context(), "job", *metav1.NewDeleteOptions(0)))
		other := map[string]string{"n1": "n2", "n2": "n1"}[pod.Spec.NodeName]
		c.ApplyYAML(t, strings.Replace(sleeper, "spec:", "spec:\n  nodeName: "+other, 1))
		c.WaitFor(t, "default/job", clustertest.Running, time.Minute)
		if said := fails(t, func(t testing.TB) { c.NoDoubleRuns(t) }); !strings.Contains(said, "default/job/app ran twice at a time") {
			t.Errorf("it says %q, want a double run of %s", said, "default/job/app")
		}
	})
}

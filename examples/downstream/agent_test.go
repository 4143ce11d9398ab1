package downstream

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// onNode runs a test with an agent on a node of its own, in virtual time: the clock advances at once when all
// goroutines wait. A goroutine or a call that outlives the agent fails the test.
func onNode(t *testing.T, test func(t *testing.T, node *critest.Runtime, agent *Agent)) {
	synctest.Test(t, func(t *testing.T) {
		node, conn := critest.Start(t, critest.Config{})
		agent := must.Get(New(conn))(t)
		go func() {
			if err := agent.Run(t.Context()); err != nil { // ends with the test
				t.Error(err)
			}
		}()
		test(t, node, agent)
	})
}

// pod returns a pod of one container that runs a script.
func pod(script string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-1"},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "app", Image: "registry.test/app:1", Command: []string{"sh", "-c", script},
		}}},
	}
}

const serve = "trap 'sleep 3; exit 0' TERM; sleep infinity & wait"

func TestPodRuns(t *testing.T) {
	onNode(t, func(t *testing.T, node *critest.Runtime, agent *Agent) {
		must.Do(t, agent.Pods.Set(pod(serve)))
		synctest.Wait() // until all goroutines wait; virtual time has not advanced
		if got := agent.Status("web-1"); got.Phase != v1.PodRunning || got.PodIP == "" {
			t.Errorf("the pod is %+v", got)
		}
	})
}

// A container that crashes restarts immediately, then after 10 s, then after 20 s.
func TestCrashLoop(t *testing.T) {
	onNode(t, func(t *testing.T, node *critest.Runtime, agent *Agent) {
		must.Do(t, agent.Pods.Set(pod("exit 3")))
		time.Sleep(35 * time.Second)
		app := agent.Status("web-1").ContainerStatuses[0]
		if app.RestartCount != 3 || app.State.Waiting == nil || app.State.Waiting.Reason != "CrashLoopBackOff" {
			t.Errorf("after 35 s the container is %+v", app)
		}
		starts := node.Journal().Of(critest.StartContainer)
		for i, want := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
			if got := starts[i+1].Start.Sub(starts[i].End); got != want {
				t.Errorf("start %d came after %v, want %v", i+1, got, want)
			}
		}
	})
}

// While the registry is unavailable, the pod waits and reports the reason. Then it runs.
func TestImagePullFails(t *testing.T) {
	onNode(t, func(t *testing.T, node *critest.Runtime, agent *Agent) {
		outage := must.Get(node.Inject(faults.Fault{
			Match: faults.Match{Method: critest.PullImage}, Times: faults.Always,
			Err: status.Error(codes.Unavailable, "registry.test: no route to host"),
		}))(t)
		must.Do(t, agent.Pods.Set(pod(serve)))
		time.Sleep(time.Minute)
		wait := agent.Status("web-1").ContainerStatuses[0].State.Waiting
		if wait == nil || !strings.Contains(wait.Message, "registry.test/app:1") {
			t.Errorf("the container waits for %+v, want its image", wait)
		}
		if got := node.Journal().Count(critest.PullImage); got != 3 { // after 0, 10 and 30 s
			t.Errorf("the registry was asked %d times in a minute", got)
		}
		outage.Remove()
		time.Sleep(5 * time.Minute) // the longest back-off
		if got := agent.Status("web-1").Phase; got != v1.PodRunning {
			t.Errorf("with the image the pod is %s", got)
		}
	})
}

// A runtime restart does not affect running pods.
func TestRuntimeRestarts(t *testing.T) {
	onNode(t, func(t *testing.T, node *critest.Runtime, agent *Agent) {
		must.Do(t, agent.Pods.Set(pod(serve)))
		time.Sleep(time.Minute)
		before := len(node.Journal())
		node.Restart(faults.Restart{Down: 20 * time.Second, Disconnect: true})
		time.Sleep(10 * time.Second)
		if agent.Health().Runtime.Err == nil {
			t.Error("the agent did not notice that the runtime is unavailable")
		}
		time.Sleep(time.Minute)
		if health := agent.Health(); !health.OK() {
			t.Errorf("the runtime is back, and the agent says: %v", health)
		}
		if changes := node.Journal().After(before).Changes(); len(changes) > 0 {
			t.Errorf("the agent did something to a pod that ran:\n%v", changes)
		}
	})
}

// Before the node is switched off, Drain stops its pods within their grace periods.
func TestDrain(t *testing.T) {
	onNode(t, func(t *testing.T, node *critest.Runtime, agent *Agent) {
		must.Do(t, agent.Pods.Set(pod(serve)))
		synctest.Wait()
		began := time.Now()
		must.Do(t, agent.Drain(t.Context()))
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("a pod that ends 3 s after SIGTERM was drained in %v", took)
		}
		if stop := node.Journal().Of(critest.StopContainer)[0]; stop.Err != nil || stop.Container != "app" {
			t.Errorf("the container was stopped by %v", stop)
		}
	})
}

// Probes and handlers reach the ports of pods in memory: the connection of the agent brings their dialer.
func TestProbesReachThePod(t *testing.T) {
	onNode(t, func(t *testing.T, node *critest.Runtime, agent *Agent) {
		p := pod("")
		get := &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)}
		app := &p.Spec.Containers[0]
		app.Image, app.Command = "docker.io/library/nginx:1.29", []string{"nginx", "-g", "daemon off;"}
		app.ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: get}, PeriodSeconds: 1}
		app.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{HTTPGet: get}}
		must.Do(t, agent.Pods.Set(p))
		time.Sleep(5 * time.Second)
		if got := agent.Status("web-1"); len(got.ContainerStatuses) != 1 || !got.ContainerStatuses[0].Ready || got.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("the pod is %+v", got)
		}
	})
}

// A program that no image contains fails to start, as on a node: the container ends with 128 and StartError.
func TestUnknownProgram(t *testing.T) {
	onNode(t, func(t *testing.T, node *critest.Runtime, agent *Agent) {
		p := pod("")
		p.Spec.RestartPolicy, p.Spec.Containers[0].Command = v1.RestartPolicyNever, []string{"perl", "-e", "exit 0"}
		must.Do(t, agent.Pods.Set(p))
		time.Sleep(5 * time.Second)
		got := agent.Status("web-1")
		if got.Phase != v1.PodFailed || len(got.ContainerStatuses) != 1 || got.ContainerStatuses[0].State.Terminated == nil {
			t.Fatalf("the pod is %+v", got)
		}
		if end := got.ContainerStatuses[0].State.Terminated; end.ExitCode != 128 || end.Reason != "StartError" || !strings.Contains(end.Message, `"perl"`) {
			t.Errorf("the container ended with %+v", end)
		}
	})
}

//go:build linux

package reports

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// A change of a pod takes effect while the pull, the stop or the handler of one of its containers takes 20 minutes.
func TestB7_ChangesBesideWorkInFlight(t *testing.T) {
	const (
		pull    = `{name: slow, image: "registry.test/slow:1", command: [server]}`
		stop    = `{name: slow, command: [sh, -c, "trap '' TERM; touch /live; sleep 20; rm /live; sleep infinity"], livenessProbe: {exec: {command: [test, -e, /live]}, periodSeconds: 1, failureThreshold: 1, initialDelaySeconds: 2}}`
		handler = `{name: slow, command: [server], lifecycle: {postStart: {exec: {command: [sleep, "1200"]}}}}`
	)
	image := func(p *v1.Pod) { p.Spec.Containers[1].Image = "registry.test/app:1" }
	debug := func(p *v1.Pod) {
		p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", Image: "registry.test/app:1", Command: []string{"sleep", "100"}}}}
	}
	deadline := func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(61)) }
	runs := func(container string) func(*node) bool {
		return func(n *node) bool { return len(n.runs(container)) == 1 }
	}
	failed := func(n *node) bool { return n.status("a").Phase == v1.PodFailed }
	for name, test := range map[string]struct {
		slow   string
		change func(*v1.Pod)
		seen   func(*node) bool
	}{
		"another image during a pull":      {pull, image, runs("slow")},
		"debug container during a pull":    {pull, debug, runs("debug")},
		"debug container during a stop":    {stop, debug, runs("debug")},
		"debug container during a handler": {handler, debug, runs("debug")},
		"deadline during a handler":        {handler, deadline, failed},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage, Image: "registry.test/slow:1"}, Times: faults.Always, Delay: 20 * time.Minute}); err != nil {
					n.Fatal(err)
				}
				pod := n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 1200, activeDeadlineSeconds: 7200, containers: [{name: app, command: [sh, -c, "trap 'exit 0' TERM; sleep infinity & wait"]}, ` + test.slow + `]}}`)
				time.Sleep(time.Minute)
				pod = pod.DeepCopy()
				test.change(pod)
				n.update(pod)
				time.Sleep(10 * time.Second)
				n.want(test.seen(n), true, "the change has taken effect")
				n.want(len(n.runs("app")), 1, "runs of the other container")
			})
		})
	}
}

// A container that is resized while it is stopped for another reason starts once, with the new resources.
func TestB7_ResizeWhileAProbeRestarts(t *testing.T) {
	on(t, critest.Config{}, allocator(t, t.TempDir(), "4"), func(n *node) {
		const sick = `command: [sh, -c, "touch /live; trap 'sleep 30; exit 0' TERM; sleep infinity & wait"], livenessProbe: {exec: {command: [test, -e, /live]}, periodSeconds: 1, failureThreshold: 1, initialDelaySeconds: 2}`
		pod := n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 60, initContainers: [{name: side, restartPolicy: Always, resources: {requests: {cpu: 100m}}, ` + sick + `}],
 containers: [{name: app, resources: {requests: {cpu: 100m}, limits: {cpu: 200m}}, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}], ` + sick + `}]}}`)
		time.Sleep(time.Minute)
		exec(n, "app", "rm", "/live")
		exec(n, "side", "rm", "/live")
		time.Sleep(10 * time.Second)
		pod = pod.DeepCopy()
		pod.Spec.Containers[0].Resources.Requests["cpu"], pod.Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse("300m"), resource.MustParse("400m")
		pod.Spec.InitContainers[0].Resources.Requests["cpu"] = resource.MustParse("300m")
		n.update(pod)
		time.Sleep(10 * time.Minute)
		for _, c := range []string{"app", "side"} {
			n.want(len(n.runs(c)), 2, "runs of "+c)
			n.want(n.of("a", c).RestartCount, 1, "restarts of "+c)
			n.want(n.of("a", c).Resources.Requests.Cpu(), "300m", "resources of "+c)
		}
		n.want(created(n, "app").GetLinux().GetResources().GetCpuQuota(), 40000, "quota of the second instance")
		n.want(n.condition("a", v1.PodResizeInProgress).Type, "", "resize in progress")
	})
}

// A container whose stop ends while the image of another one is pulled for a moment restarts.
func TestB6_StopEndsDuringAShortPull(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Times: faults.Always, Delay: 500 * time.Millisecond}); err != nil {
			n.Fatal(err)
		}
		sick := func(name, stop string) string {
			return `{name: ` + name + `, imagePullPolicy: Always, command: [sh, -c, "touch /live; trap 'sleep ` + stop + `; exit 0' TERM; sleep infinity & wait"], livenessProbe: {exec: {command: [test, -e, /live]}, periodSeconds: 1, failureThreshold: 1, initialDelaySeconds: 2}}`
		}
		n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 60, containers: [` + sick("one", "30") + `, ` + sick("two", "30.3") + `]}}`)
		time.Sleep(time.Minute)
		exec(n, "one", "rm", "/live")
		exec(n, "two", "rm", "/live")
		time.Sleep(time.Minute)
		for _, c := range []string{"one", "two"} {
			n.want(len(n.runs(c)), 2, "runs of "+c)
		}
	})
}

// Fields that a newer API server fills in restart no container, neither of this agent nor of the next one.
func TestDefaultsOfANewerServer(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {initContainers: [{name: side, restartPolicy: Always, command: [server]}], containers: [{name: app, command: [server], resources: {limits: {cpu: 1, memory: 1Gi}}}]}}`)
		time.Sleep(time.Minute)
		pod = pod.DeepCopy()
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				list[i].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: v1.NotRequired}, {ResourceName: "memory", RestartPolicy: v1.NotRequired}}
				list[i].TerminationMessagePath, list[i].TerminationMessagePolicy = v1.TerminationMessagePathDefault, v1.TerminationMessageReadFile
				list[i].ImagePullPolicy = v1.PullIfNotPresent
			}
		}
		n.update(pod)
		time.Sleep(time.Minute)
		n.restart(time.Second)
		time.Sleep(10 * time.Minute)
		n.want(len(n.runs("app")), 1, "runs of app")
		n.want(len(n.runs("side")), 1, "runs of side")
	})
}

// An image that changes while the postStart handler runs restarts the container once.
func TestImageChangesDuringAHandler(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server], lifecycle: {postStart: {exec: {command: [sleep, "40"]}}}}]}}`)
		time.Sleep(20 * time.Second)
		pod = pod.DeepCopy()
		pod.Spec.Containers[0].Image = "registry.test/app:2"
		n.update(pod)
		time.Sleep(10 * time.Minute)
		n.want(len(n.runs("app")), 2, "runs")
		n.want(n.of("a", "app").Image, "registry.test/app:2", "image")
		n.want(n.of("a", "app").Ready, true, "ready")
	})
}

// A change that removes a container takes effect once the container's handler or stop in flight has ended: the places of the others are new.
func TestB7_ContainerLeavesBesideWorkInFlight(t *testing.T) {
	const (
		app     = `{name: app, command: [server]}`
		handler = `{name: slow, command: [server], lifecycle: {postStart: {exec: {command: [sleep, "30"]}}}}`
		stop    = `{name: slow, command: [sh, -c, "trap '' TERM; touch /live; sleep 20; rm /live; sleep infinity"], livenessProbe: {exec: {command: [test, -e, /live]}, periodSeconds: 1, failureThreshold: 1, initialDelaySeconds: 2}}`
	)
	for name, test := range map[string]struct {
		containers string
		app        int
	}{
		"the last one, in its handler":        {app + ", " + handler, 0},
		"the first one, in its handler":       {handler + ", " + app, 1},
		"the last one, in a stop that fails":  {app + ", " + stop, 0},
		"the first one, in a stop that fails": {stop + ", " + app, 1},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Times: 3, Delay: 10 * time.Second, Err: status.Error(codes.Unknown, "busy")}); err != nil {
					n.Fatal(err)
				}
				pod := n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 5, containers: [` + test.containers + `]}}`)
				time.Sleep(25 * time.Second)
				pod = pod.DeepCopy()
				pod.Spec.Containers = pod.Spec.Containers[test.app : test.app+1]
				n.update(pod)
				time.Sleep(5 * time.Minute)
				n.want(len(n.status("a").ContainerStatuses), 1, "containers with a status")
				n.want(n.status("a").Phase, v1.PodRunning, "the phase")
				n.want(n.status("a").ContainerStatuses[0].State.Running != nil, true, "the other container runs")
			})
		})
	}
}

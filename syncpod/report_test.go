package syncpod_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
)

func (r *reports) set(err error, block chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.block = err, block
}

// phases are the phases reported, without repetitions.
func (r *reports) phases() (all []v1.PodPhase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.all {
		if len(all) == 0 || all[len(all)-1] != s.Phase {
			all = append(all, s.Phase)
		}
	}
	return all
}

func TestStatusThatWasNotDeliveredIsDeliveredLater(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		down := errors.New("no API server")
		n.report.set(down, nil)
		n.exit("app", 3)
		if _, err := n.SyncPod(t.Context(), testPod(), nil); !errors.Is(err, down) {
			t.Errorf("error %v", err)
		}
		n.wantStates("app 0 exited", "app 1 running") // all the same
		status := n.status()
		if _, err := n.SyncPod(t.Context(), testPod(), status); !errors.Is(err, down) {
			t.Errorf("error %v", err)
		}
		n.report.set(nil, nil)
		before := len(n.report.all)
		for range 2 {
			_, err := n.SyncPod(t.Context(), testPod(), status) // nothing is new
			must(t, err)
		}
		if got := n.report.container("app"); len(n.report.all) != before+1 || got.RestartCount != 1 || got.LastTerminationState.Terminated.ExitCode != 3 {
			t.Errorf("%d reports, the last %+v", len(n.report.all)-before, got)
		}
	})
}

func TestSlowSinkDoesNotHoldUpTheWork(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.report.set(nil, make(chan struct{}))
		began := time.Now()
		if _, err := n.SyncPod(t.Context(), testPod(), nil); err == nil {
			t.Error("no error although nothing could be reported")
		}
		for _, c := range n.Journal() {
			if !c.Start.Equal(began) {
				t.Errorf("%v began %v later", c, c.Start.Sub(began))
			}
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %v, want at most %v", took, 10*time.Second)
		}
	})
}

func TestNewAgentContinuesFromTheStatusOfThePod(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("app"), ctr("b")), never)
		n.settle(pod, time.Minute)
		n.exit("app", 42)
		n.sync(pod)
		pod.Status = n.report.last()
		n.restart()
		n.sync(pod)
		if len(n.report.all) > 0 {
			t.Errorf("reported again although nothing is new: %+v", n.report.all)
		}
		must(t, n.Remove(n.current("app").ID.ID))
		n.end(pod, nil)
		if got := n.report.container("app").State.Terminated; got == nil || got.ExitCode != 42 {
			t.Errorf("reported %+v, want exit code 42", got)
		}
	})
}

// W7: a pod that was reported to have ended is never started again.
func TestW7_EndedPodStaysEnded(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(func(p *v1.Pod) { p.Status.Phase = v1.PodFailed })
		if r := n.sync(pod); !r.Terminal || n.Journal().Count(critest.RunPodSandbox) > 0 {
			t.Errorf("result %+v, want a terminal one, and no new sandbox", r)
		}
	})
}

// A container whose own policy is Never, in a pod whose policy is not, ends the
// pod with it: it does not get a new sandbox (kubernetes #92613).
func TestS2_OverBeforeANewSandbox(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(func(p *v1.Pod) {
			p.Spec.Containers[0].RestartPolicy = new(v1.ContainerRestartPolicyNever)
		})
		n.settle(pod, time.Minute)
		n.exit("app", 0)
		must(t, n.Restart(faults.Restart{Sandboxes: faults.EffectStopped}))
		for range 3 {
			r, err := n.SyncPod(t.Context(), pod, nil)
			if err != nil || !r.Terminal {
				t.Errorf("result %+v, %v, want it to be over", r, err)
			}
		}
		if made := n.Journal().Count(critest.RunPodSandbox); made != 1 {
			t.Errorf("%d sandboxes were made", made)
		}
	})
}

func TestW1_DeletedPodIsFinished(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod()
		pod.DeletionTimestamp = new(metav1.Now())
		if r := n.sync(pod); !r.Terminal || n.Journal().Count(critest.RunPodSandbox) > 0 {
			t.Errorf("result %+v, want a terminal one, and no new sandbox\n%v", r, n.Journal())
		}
	})
}

func TestT1_PhasesNeverGoBack(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(inits(sidecar("proxy")), never)
		n.settle(pod, time.Minute)
		n.exit("app", 0)
		if r := n.sync(pod); !r.Terminal {
			t.Fatalf("result %+v", r)
		}
		if got := n.report.last().Phase; got != v1.PodRunning {
			t.Errorf("reported %s while the sidecar runs", got)
		}
		n.end(pod, nil)
		must(t, n.SyncTerminatedPod(t.Context(), pod, nil))
		if got, want := n.report.phases(), []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodSucceeded}; !reflect.DeepEqual(got, want) {
			t.Errorf("phases %v, want %v", got, want)
		}
	})
}

func TestEvictedPodIsReportedAsFailed(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		why := &syncpod.Rejection{Reason: "Evicted", Message: "The node was low on resource: memory."}
		must(t, n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod(), Evicted: why}))
		must(t, n.SyncTerminatedPod(t.Context(), testPod(), nil))
		if s := n.report.last(); s.Phase != v1.PodFailed || s.Reason != "Evicted" || s.Message != why.Message {
			t.Errorf("reported %s %q %q, want Phase %v and Reason %q and Message %v", s.Phase, s.Reason, s.Message, v1.PodFailed, "Evicted", why.Message)
		}
	})
}

// ready says that every container passes its readiness probe.
type ready struct {
	syncpod.NoProbes
	n *node
}

func (r ready) ProbeResults(types.UID) map[runtime.ContainerID]actions.ProbeResults {
	all := map[runtime.ContainerID]actions.ProbeResults{}
	for _, c := range r.n.status().Containers {
		all[c.ID] = actions.ProbeResults{Startup: actions.ProbeSuccess, Liveness: actions.ProbeSuccess, Readiness: actions.ProbeSuccess}
	}
	return all
}

func TestReadinessIsReported(t *testing.T) {
	for name, want := range map[string]bool{"not probed yet": false, "passed": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				if want {
					n.restart(func(c *syncpod.Config) { c.Parts.Probes = ready{n: n} })
				}
				pod := testPod(func(p *v1.Pod) { p.Spec.Containers[0].ReadinessProbe = &v1.Probe{} })
				n.settle(pod, time.Minute)
				if got := n.report.container("app").Ready; got != want {
					t.Errorf("ready %t, want %t", got, want)
				}
			})
		})
	}
}

// took records durations.
type took struct {
	syncpod.NopObserver
	mu  sync.Mutex
	all []string
}

func (o *took) note(what string, d time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, fmt.Sprint(what, " ", d, " ", err != nil))
}

func (o *took) ImagePulled(_ *v1.Pod, c actions.ContainerRef, image string, d time.Duration, err error) {
	o.note("pull "+image+" for "+c.Name, d, err)
}

func (o *took) HookEnded(_ *v1.Pod, container string, hook syncpod.Hook, d time.Duration, err error) {
	o.note(string(hook)+" of "+container, d, err)
}

func (o *took) PlanMade(_ *v1.Pod, plan actions.Plan) {
	for _, s := range plan.Start {
		o.note("plan "+s.Container.Name+": "+s.Reason.String(), 0, nil)
	}
}

func (o *took) SandboxCreated(_ *v1.Pod, d time.Duration, err error) { o.note("sandbox", d, err) }

func (o *took) ContainerStarted(_ *v1.Pod, c actions.ContainerRef, d time.Duration, err error) {
	o.note("start "+c.Name, d, err)
}

func (o *took) ContainerStopped(_ *v1.Pod, container string, d time.Duration, err error) {
	o.note("stop "+container, d, err)
}

func TestDurationsAreObserved(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		observer := &took{}
		n.restart(func(c *syncpod.Config) { c.Observer = observer })
		for _, m := range []critest.Method{critest.RunPodSandbox, critest.CreateContainer, critest.StopContainer} {
			n.Fault(faults.Fault{Match: faults.Match{Method: m}, Delay: time.Second, Err: errBroken})
			n.Fault(faults.Fault{Match: faults.Match{Method: m}, Delay: 2 * time.Second})
		}
		n.settle(testPod(), time.Minute)
		n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod()})
		n.end(testPod(), nil)
		plan := "plan app: the pod starts in a new sandbox 0s false"
		want := []string{
			plan, "sandbox 1s true", plan, "sandbox 2s false", "pull registry.test/app:1 for app 0s false", "start app 1s true",
			"plan app: the runtime has no record of it 0s false", "start app 2s false", "stop app 1s true", "stop app 2s false",
		}
		if got := slices.Compact(observer.all); !slices.Equal(got, want) { // blocked steps are planned again
			t.Errorf("observed %q, want %q", got, want)
		}
	})
}

func (o *took) VolumeSetUp(_ *v1.Pod, volume *v1.Volume, _ time.Duration, err error) {
	o.note("volume "+volume.Name, 0, err)
}

func TestPullsAndHooksAreObserved(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		observer := &took{}
		n.restart(func(c *syncpod.Config) { c.Observer = observer })
		n.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Delay: 3 * time.Second, Err: errBroken})
		n.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Delay: 2 * time.Second})
		pod := testPod(func(p *v1.Pod) {
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{
				PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sleep", "5"}}},
				PreStop:   &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"false"}}},
			}
		})
		n.settle(pod, time.Minute)
		n.end(pod, nil)
		observer.all = slices.DeleteFunc(observer.all, func(line string) bool { return strings.HasPrefix(line, "plan ") || strings.HasPrefix(line, "sandbox ") })
		want := []string{
			"pull registry.test/app:1 for app 3s true", "start app 3s true", "pull registry.test/app:1 for app 2s false",
			"PostStart of app 5s false", "start app 7s false", "PreStop of app 0s true", "stop app 0s false",
		}
		if !slices.Equal(observer.all, want) {
			t.Errorf("observed %q, want %q", observer.all, want)
		}
	})
}

func TestVolumesAreObserved(t *testing.T) {
	root := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		observer := &took{}
		n.restart(func(c *syncpod.Config) { c.Root, c.Observer = root, observer })
		n.SyncPod(t.Context(), testPod(func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{
				{Name: "tmp", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{Name: "conf", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}}, // no source has ConfigMaps
				{Name: "unused", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
			}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}, {Name: "conf", MountPath: "/conf"}}
		}), nil)
		want := []string{"plan app: the pod starts in a new sandbox 0s false", "volume tmp 0s false", "volume conf 0s true"}
		if !slices.Equal(observer.all, want) {
			t.Errorf("observed %q, want %q", observer.all, want)
		}
	})
}

// running records when pods run.
type running struct {
	syncpod.NopObserver
	mu  sync.Mutex
	all []time.Duration
}

func (r *running) PodRunning(_ *v1.Pod, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, took)
}

func TestTimeUntilAPodRunsIsObserved(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		observer := &running{}
		n.restart(func(c *syncpod.Config) { c.Observer = observer })
		pod := testPod(inits(ctr("one", "sleep", "7")))
		n.settle(pod, time.Minute)
		time.Sleep(8 * time.Second)
		n.settle(pod, time.Minute)
		n.exit("app", 1)
		n.settle(pod, time.Minute)
		pod.Status = n.report.last()
		n.restart(func(c *syncpod.Config) { c.Observer = observer })
		n.sync(pod)
		if len(observer.all) != 1 || observer.all[0] < 7*time.Second || observer.all[0] > 12*time.Second {
			t.Errorf("observed %v, want once about 8s", observer.all)
		}
	})
}

func TestWaitingIsReportedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("app", "false")))
		n.drive(pod, time.Minute) // until the wait of 80 s
		for range 5 {
			n.sync(pod)
			synctest.Wait()
		}
		before := len(n.report.all)
		for range 15 {
			n.sync(pod)
			time.Sleep(time.Second)
		}
		w := n.report.container("app").State.Waiting
		if w == nil || w.Message != "back-off 1m20s restarting failed container=app pod=web_default("+podUID+")" {
			t.Errorf("reported %+v, want message %q", n.report.container("app").State, "back-off 1m20s restarting failed container=app pod=web_default("+podUID+")")
		}
		if again := len(n.report.all) - before; again > 0 {
			t.Errorf("reported %d times while nothing changed", again)
		}
	})
}

// An exited container is reported, with its message, while the rest of the pod stops.
func TestReportedWhileItStops(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.restart(func(c *syncpod.Config) { c.Parts.Messages = farewell{} })
		pod := testPod(never, containers(ctr("app"), ctr("b")))
		n.settle(pod, time.Minute)
		n.stubborn("b")
		n.exit("app", 3)
		ended := make(chan error)
		go func() { ended <- n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: pod}) }()
		time.Sleep(10 * time.Second)
		if got := n.report.container("app").State.Terminated; got == nil || got.ExitCode != 3 || got.Message != "bye app of web" {
			t.Errorf("reported %+v, want exit code 3 and message %q", n.report.container("app").State, "bye app of web")
		}
		must(t, <-ended)
		if got := n.report.container("b").State.Terminated; got == nil || got.Message != "bye b of web" {
			t.Errorf("reported %+v, want message %q", n.report.container("b").State, "bye b of web")
		}
	})
}

// T8: a container that ends while another one of its pod still stops is reported at once, and stays reported if the stop
// fails. The agent may learn of it before the stop begins, with a status from before (kubernetes #106896, #128820).
func TestT8_ExitDuringTheStopIsReported(t *testing.T) {
	for _, before := range []bool{false, true} {
		t.Run(fmt.Sprintf("before=%t", before), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.restart(func(c *syncpod.Config) { c.Parts.Messages = farewell{} })
				pod := testPod(never, containers(ctr("app"), ctr("b")))
				n.settle(pod, time.Minute)
				n.stubborn("b")
				termination := syncpod.Termination{Pod: pod, Status: n.status()}
				time.Sleep(time.Second)
				if before {
					n.exit("app", 3)
					n.Observe(t.Context(), n.status())
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- n.SyncTerminatingPod(ctx, termination) }()
				time.Sleep(time.Second)
				n.Observe(t.Context(), n.status())
				synctest.Wait()
				n.wantReported("app", "bye app of web")
				if n.report.container("b").State.Running == nil {
					t.Errorf("b is reported as %+v, want running", n.report.container("b").State)
				}
				cancel()
				if err := <-ended; err == nil {
					t.Error("no error of a stop that was cancelled")
				}
				n.wantReported("app", "bye app of web")
			})
		})
	}
}

// wantReported fails the test unless a container is reported as terminated, with a message, and its pod as not ready.
func (n *node) wantReported(name, message string) {
	n.Helper()
	if got := n.report.container(name).State.Terminated; got == nil || got.Message != message {
		n.Errorf("%s is reported as %+v, want terminated, with %q", name, n.report.container(name).State, message)
	}
	for _, c := range n.report.last().Conditions {
		if c.Type == v1.PodReady && c.Status != v1.ConditionFalse {
			n.Errorf("the pod is reported as ready")
		}
	}
}

// farewell is the last message of every container.
type farewell struct{}

func (farewell) TerminationMessage(pod *v1.Pod, c *runtime.ContainerStatus) (string, error) {
	return "bye " + c.Name + " of " + pod.Name, nil
}

// A pod whose last status was not delivered is not over: it is tried again.
func TestLastStatusIsDelivered(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(never)
		n.settle(pod, time.Minute)
		down := errors.New("no API server")
		n.report.set(down, nil)
		n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: pod})
		if err := n.SyncTerminatedPod(t.Context(), pod, n.status()); !errors.Is(err, down) {
			t.Errorf("error %v", err)
		}
		n.report.set(nil, nil)
		must(t, n.SyncTerminatedPod(t.Context(), pod, n.status()))
		if got := n.report.last().Phase; got != v1.PodFailed {
			t.Errorf("reported %s, want %v", got, v1.PodFailed)
		}
	})
}

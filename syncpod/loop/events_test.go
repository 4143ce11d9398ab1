package loop_test

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	podprobe "github.com/podsync/podsync/syncpod/probe"
	"github.com/podsync/podsync/syncpod/source"
)

// has reports whether an event begins with text.
func (r *recorder) has(text string) bool {
	return slices.ContainsFunc(r.all(), func(e string) bool { return strings.HasPrefix(e, text) })
}

// A pod that cannot be inspected is reported as an event, as by a kubelet.
func TestPodThatCannotBeInspectedIsReported(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src, told := source.NewStaticPush("file"), &recorder{}
		a := n.start([]source.Source{src}, func(c *nodeagent.Config) { c.Sync.Events = syncpod.EventRecorderFunc(told.Eventf) })
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(time.Minute)
		fault, err := n.Inject(faults.Fault{
			Match: faults.Match{Method: critest.ContainerStatus}, Times: faults.Always, Err: status.Error(codes.Internal, "broken"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.ExitContainer(n.Journal().Pod("u").Of(critest.StartContainer)[0].ContainerID, critest.Exit{Code: 7}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if !told.has("Warning FailedSync error determining status: ") {
			t.Errorf("events %q; %v", told.all(), a.Health())
		}
		fault.Remove()
		time.Sleep(10 * time.Minute)
		if h := a.Health(); !h.OK() {
			t.Errorf("health is %v", h)
		}
	})
}

// gated is a recorder whose calls wait for a gate, and take a while each.
type gated struct {
	recorder
	gate chan struct{}
	took time.Duration
}

func (g *gated) Eventf(object k8sruntime.Object, eventtype, reason, format string, args ...any) {
	<-g.gate
	time.Sleep(g.took)
	g.recorder.Eventf(object, eventtype, reason, format, args...)
}

// dropped counts the events that are lost.
type dropped struct {
	syncpod.NopObserver
	count atomic.Int64
}

func (d *dropped) EventDropped(k8sruntime.Object, string) { d.count.Add(1) }

// A recorder that does not return holds up no pod, and gets the events of a pod in
// their order when it does.
func TestEventsHoldUpNothing(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src, events := source.NewStaticPush("file"), &gated{gate: make(chan struct{})}
		a := n.start([]source.Source{src}, func(c *nodeagent.Config) { c.Sync.Events = syncpod.EventRecorderFunc(events.Eventf) })
		db := pod("file", "db", "v", forever)
		db.Spec.Containers[0].Image = "registry.test/db:1" // a different image, so that both pods pull
		set(t, src, pod("file", "web", "u", forever), db)
		time.Sleep(time.Minute)
		n.wantRunning(1, "u", "v")
		if h := a.Health(); !h.OK() || len(events.all()) > 0 {
			t.Errorf("health %v, events %q", h, events.all())
		}
		src.Delete("v")
		time.Sleep(time.Minute)
		n.wantRunning(0, "v")
		close(events.gate)
		synctest.Wait()
		want := []string{"Normal Created ", "Normal Killing ", "Normal Pulled ", "Normal Pulling ", "Normal Started "}
		if got := events.all(); len(got) != 9 || slices.ContainsFunc(want, func(w string) bool { return !events.has(w) }) || !strings.HasPrefix(got[8], "Normal Killing") {
			t.Errorf("events %q, want %q, 9 in all, of which the last begins with %q", got, want, "Normal Killing")
		}
	})
}

// When Run ends the events that wait are recorded, if that takes no longer than 2 s.
func TestEventsAtTheEndOfRun(t *testing.T) {
	for name, tc := range map[string]struct {
		open     bool
		took     time.Duration
		recorded int
		dropped  int64
		end      time.Duration
	}{
		"quick": {true, 0, 4, 0, 0},
		"slow":  {true, 400 * time.Millisecond, 4, 0, 1600 * time.Millisecond},
		"deaf":  {false, 0, 1, 3, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				src, lost := source.NewStaticPush("file"), &dropped{}
				events := &gated{gate: make(chan struct{}), took: tc.took}
				a := n.start([]source.Source{src}, func(c *nodeagent.Config) {
					c.Sync.Events, c.Sync.Observer = syncpod.EventRecorderFunc(events.Eventf), lost
				})
				set(t, src, pod("file", "web", "u", forever))
				time.Sleep(time.Minute)
				if tc.open {
					close(events.gate)
				}
				began := time.Now()
				a.stop()
				if took := time.Since(began); took != tc.end {
					t.Errorf("the end took %v, want %v", took, tc.end)
				}
				if !tc.open {
					close(events.gate)
				}
				synctest.Wait()
				if got := events.all(); len(got) != tc.recorded || lost.count.Load() != tc.dropped {
					t.Errorf("%d dropped, recorded %q", lost.count.Load(), got)
				}
			})
		})
	}
}

// The event of a failed probe has the path of the container in the pod, and the
// version of the pod.
func TestEventOfAFailingProbe(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		always, probe := v1.ContainerRestartPolicyAlways, &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"false"}}},
			PeriodSeconds: 1, FailureThreshold: 1, TimeoutSeconds: 1, SuccessThreshold: 1}
		p := pod("file", "web", "u", forever)
		p.ResourceVersion = "7"
		p.Spec.Containers[0].ReadinessProbe = probe
		p.Spec.InitContainers = []v1.Container{{Name: "side", Image: "registry.test/app:1", ImagePullPolicy: v1.PullIfNotPresent,
			Command: []string{"sh", "-c", forever}, RestartPolicy: &always, ReadinessProbe: probe}}
		paths := map[string]bool{}
		var mu sync.Mutex
		src := source.NewStaticPush("file")
		n.start([]source.Source{src}, func(c *nodeagent.Config) {
			c.Sync.Events = syncpod.EventRecorderFunc(func(object k8sruntime.Object, _, reason, _ string, _ ...any) {
				mu.Lock()
				defer mu.Unlock()
				if about := object.(*v1.ObjectReference); reason == "Unhealthy" {
					paths[about.FieldPath+" "+about.ResourceVersion] = true
				}
			})
		})
		set(t, src, p)
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(paths) != 2 || !paths["spec.containers{app} 7"] || !paths["spec.initContainers{side} 7"] {
			t.Errorf("events are about %v", paths)
		}
	})
}

// checks are the reports of a probe observer, by UID.
type checks struct {
	mu   sync.Mutex
	told map[types.UID][]string
}

func (c *checks) Checked(check podprobe.Check) { c.add(check.Pod.UID, string(check.Kind)) }

func (c *checks) PodForgotten(uid types.UID) { c.add(uid, "forgotten") }

func (c *checks) add(uid types.UID, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if told := c.told[uid]; len(told) == 0 || told[len(told)-1] != what {
		c.told[uid] = append(told, what)
	}
}

// An observer of probes is notified when a pod is removed, so that it can forget the pod.
func TestProbeObserver(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		web, plain := pod("file", "web", "u", forever), pod("file", "plain", "p", forever)
		web.Spec.Containers[0].ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}, PeriodSeconds: 1}
		src, c := source.NewStaticPush("file"), &checks{told: map[types.UID][]string{}}
		n.start([]source.Source{src}, func(config *nodeagent.Config) { config.ProbeObserver = c })
		set(t, src, web, plain)
		time.Sleep(time.Minute)
		set(t, src)
		time.Sleep(time.Minute)
		c.mu.Lock()
		defer c.mu.Unlock()
		if want := map[types.UID][]string{"u": {"Readiness", "forgotten"}, "p": {"forgotten"}}; !reflect.DeepEqual(c.told, want) {
			t.Errorf("observed %v, want %v", c.told, want)
		}
	})
}

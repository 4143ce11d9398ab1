package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/rig/plancheck"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/source"
)

// A relief is an agent in this process. Its pods are not static, because static pods are never evicted.
type relief struct {
	*nodeagent.Agent
	t    *testing.T
	pods *source.Push
	// detach ends the agent, and keeps its pods running.
	detach func()

	mu     sync.Mutex
	events []string
	last   map[types.UID]v1.PodStatus
}

// onRelief runs a test on each endpoint, with an agent that sees only its own pods.
func onRelief(t *testing.T, policy eviction.Policy, test func(r *relief)) {
	onEdges(t, func(t *testing.T, e *edge) {
		r := newRelief(t, e, func(c *nodeagent.Config) { c.NoEviction, c.EvictionPolicy = false, policy })
		test(r)
	})
}

// newRelief starts an agent with a changed configuration. Its pods stop with the test, unless the test detached the
// agent.
func newRelief(t *testing.T, e *edge, change func(c *nodeagent.Config)) *relief {
	t.Helper()
	r := &relief{t: t, pods: source.NewPush(), last: map[types.UID]v1.PodStatus{}}
	dir := t.TempDir()
	owner := e.owner
	owner.Name += "-" + strings.ToLower(filepath.Base(t.Name()[:strings.Index(t.Name(), "/")]))
	config := nodeagent.Config{
		Client: e.client, Root: filepath.Join(dir, "root"), Sources: []source.Source{r.pods}, NodeName: nodeName, NoEviction: true, NoImageGC: true,
		Sync: syncpod.Config{
			Owner: owner, Node: syncpod.Node{LogsRoot: filepath.Join(dir, "logs")}, Events: syncpod.EventRecorderFunc(r.event), Sink: syncpod.StatusSinkFunc(r.reported),
		},
	}
	if change != nil {
		change(&config)
	}
	plancheck.Check(t, &config)
	agent := must.Get(nodeagent.New(config))(t)
	r.Agent = agent
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- agent.Run(ctx) }()
	r.detach = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		if ctx.Err() != nil {
			return
		}
		if err := agent.Drain(ctx); err != nil {
			t.Error(err)
		}
		_ = r.pods.Set()
		time.Sleep(time.Second) // for the removal of the rest of the pods
		r.detach()
	})
	return r
}

func (r *relief) reported(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[pod.UID] = status
	return nil
}

// status returns the last reported status of a pod.
func (r *relief) status(uid types.UID) v1.PodStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[uid]
}

func (r *relief) event(about k8sruntime.Object, _, reason, format string, args ...any) {
	ref, ok := about.(*v1.ObjectReference)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, ref.Name+" "+reason+": "+fmt.Sprintf(format, args...))
}

// wantEvent waits for an event that contains these words.
func (r *relief) wantEvent(words ...string) {
	r.t.Helper()
	r.until("event "+strings.Join(words, ", "), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.ContainsFunc(r.events, func(e string) bool {
			return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e, w) })
		})
	})
}

func (r *relief) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.t.Fatalf("%s: not in time; events:\n%s\n%v", what, strings.Join(r.events, "\n"), r.Pressure())
		}
	}
}

// pod returns a pod that requests some memory, and runs a script.
func (r *relief) pod(name, script string) *v1.Pod {
	p := &v1.Pod{Spec: v1.PodSpec{
		RestartPolicy: v1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []v1.Container{{
			Name: "app", Image: image, ImagePullPolicy: v1.PullNever, Command: []string{"/bin/busybox", "sh", "-c", script},
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("16Ki")}},
		}},
	}}
	p.Namespace, p.Name, p.UID = "e2e", name, types.UID(fmt.Sprintf("%s-%d-%d", name, os.Getpid(), time.Now().UnixNano()))
	return p
}

func (r *relief) run(pods ...*v1.Pod) {
	r.t.Helper()
	must.Do(r.t, r.pods.Set(pods...))
	for _, p := range pods {
		r.until(p.Name+" runs", func() bool { return r.status(p.UID).Phase != "" && r.status(p.UID).Phase != v1.PodPending })
	}
}

func disruption(s v1.PodStatus) *v1.PodCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == v1.DisruptionTarget {
			return &s.Conditions[i]
		}
	}
	return nil
}

// If the threshold is nearly all of the memory, the node is under pressure, and the pod that may be evicted is evicted.
func TestEvictionByMemory(t *testing.T) {
	policy := eviction.Policy{Hard: map[eviction.Signal]string{eviction.MemoryAvailable: "99.9%"}, Interval: 5 * time.Second}
	onRelief(t, policy, func(r *relief) {
		stays, goes := r.pod("stays", "sleep 1000"), r.pod("goes", "sleep 1000")
		stays.Spec.Priority = new(int32(2_000_001_000))
		r.run(stays, goes)
		r.until("eviction", func() bool { return r.status(goes.UID).Phase == v1.PodFailed })
		s := r.status(goes.UID)
		const begin = "The node was low on resource: memory. Threshold quantity: "
		if c := disruption(s); s.Reason != "Evicted" || !strings.HasPrefix(s.Message, begin) || !strings.Contains(s.Message, "Container app was using ") || c == nil || c.Reason != "TerminationByKubelet" {
			r.t.Errorf("%+v, want reason %q, a message that begins with %v and contains %q, and a disruption with reason %q", s, "Evicted", begin, "Container app was using ", "TerminationByKubelet")
		}
		r.wantEvent("goes Evicted: ", begin)
		r.wantEvent(nodeName, "EvictionThresholdMet: Attempting to reclaim memory")
		time.Sleep(11 * time.Second)
		if s := r.status(stays.UID); s.Phase != v1.PodRunning {
			r.t.Errorf("the critical pod is %s: %s", s.Phase, s.Message)
		}
		if c := r.Pressure()[0]; c.Type != v1.NodeMemoryPressure || c.Status != v1.ConditionTrue {
			r.t.Errorf("%+v, want Type %v and Status %v", c, v1.NodeMemoryPressure, v1.ConditionTrue)
		}
		if why := r.ExplainPressure(stays.UID); why != "stays: it is critical" {
			r.t.Errorf("%v, want %q", why, "stays: it is critical")
		}
	})
}

// A pod that exceeds the limit of an emptyDir is evicted, and a pod that does not is kept.
func TestEvictionByEmptyDir(t *testing.T) {
	onRelief(t, eviction.Policy{Hard: map[eviction.Signal]string{}, Interval: 2 * time.Second}, func(r *relief) {
		limit := resource.MustParse("1Mi")
		writing := func(name, count string) *v1.Pod {
			p := r.pod(name, "dd if=/dev/zero of=/cache/data bs=64k count="+count+"; sleep 1000")
			p.Spec.Volumes = []v1.Volume{{Name: "cache", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &limit}}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "cache", MountPath: "/cache"}}
			return p
		}
		little, much := writing("little", "4"), writing("much", "64")
		r.run(little, much)
		r.until("eviction", func() bool { return r.status(much.UID).Phase == v1.PodFailed })
		s := r.status(much.UID)
		if want := `Usage of EmptyDir volume "cache" exceeds the limit "1Mi". `; s.Reason != "Evicted" || s.Message != want || disruption(s) != nil {
			r.t.Errorf("%+v, want %q", s, want)
		}
		if s := r.status(little.UID); s.Phase != v1.PodRunning {
			r.t.Errorf("the other pod is %s: %s", s.Phase, s.Message)
		}
	})
}

// A container that exceeds its memory limit is killed, and so is a single process of a container that continues without it.
// Both are reported, with the process.
func TestOOMKilled(t *testing.T) {
	if log, err := os.Open("/dev/kmsg"); err != nil {
		t.Skip(err)
	} else {
		log.Close()
	}
	onRelief(t, eviction.Policy{Hard: map[eviction.Signal]string{}}, func(r *relief) {
		limited := func(name, script string) *v1.Pod {
			p := r.pod(name, script)
			p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("24Mi")}
			return p
		}
		// A container that is killed while it starts may have the reason Error: containerd 1.6 receives the kill when it
		// has already recorded the exit.
		whole, part := limited("whole", "sleep 2; exec /bin/busybox tail /dev/zero"), limited("part", "/bin/busybox tail /dev/zero; sleep 1000")
		r.run(whole, part)
		r.until("end", func() bool { return r.status(whole.UID).Phase == v1.PodFailed })
		ended := r.status(whole.UID).ContainerStatuses[0].State.Terminated
		if ended == nil || ended.Reason != "OOMKilled" || ended.ExitCode != 137 {
			r.t.Errorf("%+v, want reason %q and exit code 137", ended, "OOMKilled")
		}
		r.wantEvent("whole OOMKilling: Process ", "PID ", "of container app was killed: the memory limit was reached")
		r.wantEvent("part OOMKilling: Process ", "PID ", "of container app was killed: the memory limit was reached")
		if s := r.status(part.UID); s.Phase != v1.PodRunning {
			r.t.Errorf("the pod that goes on is %s", s.Phase)
		}
	})
}

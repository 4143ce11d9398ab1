package timeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// An observedAgent is an agent with a Timeline.
type observedAgent struct {
	*nodeagent.Agent
	t       *testing.T
	history *Timeline
	rt      *critest.Runtime
	pods    *source.Push
	began   time.Time
}

// newAgent runs an agent until the test ends, in the bubble that it is called in.
func newAgent(t *testing.T, c Config) *observedAgent {
	t.Helper()
	dir := t.TempDir()
	rt, conn := critest.Start(t, critest.Config{Dir: dir, Latency: map[critest.Method]time.Duration{
		critest.RunPodSandbox: 300 * time.Millisecond, critest.PullImage: 2 * time.Second, critest.CreateContainer: 100 * time.Millisecond,
	}})
	a := &observedAgent{t: t, rt: rt, history: New(c), pods: source.NewPush(), began: time.Now()}
	config := nodeagent.Config{
		Client: cri.NewClient(conn), Sources: []source.Source{a.pods}, Root: filepath.Join(dir, "root"),
		NoEviction: true, // this machine may be short of something
		Sync:       syncpod.Config{Node: syncpod.Node{LogsRoot: filepath.Join(dir, "logs")}, RuntimeName: "critest"},
	}
	a.history.Observe(&config)
	var err error
	if a.Agent, err = nodeagent.New(config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return a
}

func (a *observedAgent) set(pods ...*v1.Pod) {
	a.t.Helper()
	must.Do(a.t, a.pods.Set(pods...))
}

// observed is a Timeline, and the sink of the Config that it observes.
func observed(t *testing.T, c Config) (*Timeline, syncpod.StatusSink) {
	t.Helper()
	h := New(c)
	var config nodeagent.Config
	h.Observe(&config)
	return h, config.Sync.Sink
}

// secret is what must be in nothing that is shown.
const secret = "hush-hush"

// pod returns a pod that runs a script, which the Timeline must not show.
func pod(name, script string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name), Annotations: map[string]string{"a": secret}},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(5)),
			Containers: []v1.Container{{
				Name: "app", Image: "registry.test/" + name + ":1", Command: []string{"sh", "-c", script + " # " + secret}, Args: []string{secret},
				Env: []v1.EnvVar{{Name: "TOKEN", Value: secret}}, TerminationMessagePolicy: v1.TerminationMessageFallbackToLogsOnError,
			}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func check(command string) *v1.Probe {
	return &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", command}}}, PeriodSeconds: 1, FailureThreshold: 3}
}

// story returns the entries of a pod, one line each, with their beginnings and ends in seconds.
func (a *observedAgent) story(name string) (lines []string) {
	for _, p := range a.history.pods() {
		if p.Name != name {
			continue
		}
		for _, e := range p.Entries {
			end := "   "
			if !e.End.IsZero() {
				end = fmt.Sprintf("%.1f", e.End.Sub(a.began).Seconds())
			}
			line := fmt.Sprintf("%.1f-%s %s %s %q %q", e.Begin.Sub(a.began).Seconds(), strings.TrimSpace(end), e.Container, e.Kind, e.Name, e.Reason)
			if e.Failed {
				line += " failed"
			}
			if e.Count > 1 {
				line += fmt.Sprintf(" x%d", e.Count)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// want compares without the order, because entries with the same beginning may be in any order.
func (a *observedAgent) want(name string, want ...string) {
	a.t.Helper()
	got := a.story(name)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		a.t.Errorf("%s:\n\t%s\nwant\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestLifeOfAPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, Config{})
		a.set(pod("web", "trap 'exit 0' TERM; sleep 9.5; touch /ready; sleep infinity & wait", func(p *v1.Pod) {
			c := &p.Spec.Containers[0]
			c.ReadinessProbe = check("test -e /ready # " + secret)
			c.Lifecycle = &v1.Lifecycle{
				PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sleep", "1"}}},
				PreStop:   &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sleep", "2"}}},
			}
			p.Spec.InitContainers = []v1.Container{{Name: "init", Image: "registry.test/init:1", Command: []string{"sh", "-c", "sleep 3"}}}
		}))
		time.Sleep(30 * time.Second)
		a.set()
		time.Sleep(30 * time.Second)
		a.want("web",
			`0.0-8.5  phase "Pending" ""`,
			`0.0-2.4 init wait "PodInitializing" ""`,
			`0.0-7.5 app wait "PodInitializing" ""`,
			`0.0-0.3  sandbox "Sandbox" "the pod has no sandbox"`,
			`0.3-2.3 init pull "registry.test/init:1" ""`,
			`2.3-2.4 init start "Start" "the pod starts in a new sandbox"`,
			`2.4-5.4 init run "Ran" "exit code 0 (Completed)"`,
			`5.4-7.4 app pull "registry.test/web:1" ""`,
			`7.4-7.5 app start "Start" "the runtime has no record of it"`,
			`7.5-8.5 app hook "PostStart" ""`,
			`7.5-32.0 app run "Ran" "exit code 0 (Completed)"`,
			`8.5-30.0  phase "Running" ""`,
			`8.5-17.5 app probe "Readiness probe" "it fails" failed x9`,
			`30.0-32.0  phase "Stopping" "it is not to run any more"`,
			`30.0-32.0 app hook "PreStop" ""`,
			`32.0-32.0 app stop "Stop" "it is not to run any more"`,
			`32.0-32.0  phase "Cleaning up" ""`, `32.0-32.0  phase "Removing" ""`)
		if p := a.history.pods()[0]; !p.Finished || p.Phase != "Succeeded" || p.Dropped != 0 {
			t.Errorf("%+v, want it finished in phase %q, and nothing dropped", p, "Succeeded")
		}
	})
}

func TestTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, Config{})
		_, err := a.rt.Inject(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Times: 1, Err: status.Error(codes.Unavailable, secret)})
		must.Do(t, err)
		_, err = a.rt.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Times: 1, Err: status.Error(codes.Unknown, secret)})
		must.Do(t, err)
		a.set(pod("crash", "echo "+secret+"; sleep 2; exit 3"))
		time.Sleep(time.Minute)
		shown := "3.9" // the failure is shown for 2 s, unless a status that was observed during the pull asks for a sync before
		if slices.Contains(a.story("crash"), `3.9-5.9 app wait "ErrImagePull" "" failed`) {
			shown = "5.9"
		}
		a.want("crash",
			`0.0-16.0  phase "Pending" ""`,
			`0.0-3.9 app wait "ContainerCreating" ""`,
			`0.0-0.3  sandbox "Sandbox" "the pod has no sandbox" failed`,
			`0.3-3.9  work "SyncPod" "CreatePodSandboxError" failed`,
			`1.6-1.9  sandbox "Sandbox" "the pod has no sandbox"`,
			`1.9-3.9 app pull "registry.test/crash:1" "ErrImagePull" failed`,
			`3.9-3.9 app start "Start" "ErrImagePull app" failed`,
			`3.9-`+shown+` app wait "ErrImagePull" "" failed`,
			`3.9-`+shown+`  work "SyncPod" "ErrImagePull app" failed`,
			shown+`-16.0 app wait "ImagePullBackOff" "" failed`,
			`13.9-15.9 app pull "registry.test/crash:1" ""`,
			`15.9-16.0 app start "Start" "the runtime has no record of it"`,
			`16.0-  phase "Running" ""`,
			`16.0-18.0 app run "Ran" "exit code 3 (Error)" failed`,
			`18.0-18.1 app start "Start" "it has ended and its restart policy asks for another run"`,
			`18.1-20.1 app run "Ran" "exit code 3 (Error)" failed`,
			`20.1-30.2 app wait "CrashLoopBackOff" "" failed`,
			`30.1-30.2 app start "Start" "it has ended and its restart policy asks for another run"`,
			`30.2-32.2 app run "Ran" "exit code 3 (Error)" failed`,
			`32.2-52.3 app wait "CrashLoopBackOff" "" failed`,
			`52.2-52.3 app start "Start" "it has ended and its restart policy asks for another run"`,
			`52.3-54.3 app run "Ran" "exit code 3 (Error)" failed`,
			`54.3- app wait "CrashLoopBackOff" "" failed`)
		a.set(pod("alive", "sleep infinity", func(p *v1.Pod) {
			p.Spec.Containers[0].LivenessProbe = check("echo " + secret + "; exit 1")
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}}
			p.Spec.Volumes = []v1.Volume{{Name: "tmp", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		}), pod("vain", "true", func(p *v1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "keys", MountPath: "/keys"}}
			p.Spec.Volumes = []v1.Volume{{Name: "keys", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys"}}}}
		}))
		time.Sleep(20 * time.Second)
		a.want("alive",
			`60.0-62.4  phase "Pending" ""`,
			`60.0-62.4 app wait "ContainerCreating" ""`,
			`60.0-60.3  sandbox "Sandbox" "the pod has no sandbox"`,
			`60.3-62.3 app pull "registry.test/alive:1" ""`,
			`62.3-62.4 app start "Start" "the pod starts in a new sandbox"`,
			`62.4-69.4 app probe "Liveness probe" "it fails" failed x3`,
			`62.4-  phase "Running" ""`,
			`62.4-69.4 app run "Ran" "exit code 137 (Error)" failed`,
			`64.4-69.4 app stop "Stop" "its liveness probe failed"`,
			`69.4-69.5 app start "Start" "it was stopped in order to be started again"`,
			`69.5-76.5 app probe "Liveness probe" "it fails" failed x3`,
			`69.5-76.5 app run "Ran" "exit code 137 (Error)" failed`,
			`71.5-76.5 app stop "Stop" "its liveness probe failed"`,
			`76.5- app wait "CrashLoopBackOff" "" failed`)
		a.want("vain",
			`60.0-  phase "Pending" ""`,
			`60.0-70.0  volume "keys" "" failed x2`,
			`60.0- app wait "ContainerCreating" ""`,
			`60.0-  work "SyncPod" "PreparePodError" failed x2`)
		var page, trace bytes.Buffer
		must.Do(t, errors.Join(a.history.writeHTML(&page, a.history.pods()), writeTrace(&trace, a.history.pods())))
		for what, text := range map[string]string{"the page": page.String(), "the trace": trace.String(), "the stored timeline": fmt.Sprintf("%+v", a.history.pods())} {
			if strings.Contains(text, secret) || !strings.Contains(text, "CrashLoopBackOff") {
				t.Errorf("%s, want no %v in it and %q in it\n%s", what, secret, "CrashLoopBackOff", text)
			}
		}
	})
}

// Who takes pods over shows what ran before, and how it ended.
func TestTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, sink := observed(t, Config{})
		now := time.Now()
		p := pod("web", "")
		at := func(ago time.Duration) metav1.Time { return metav1.NewTime(now.Add(-ago)) }
		ended := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: 2, Signal: 15, Reason: "Error", Message: secret, ContainerID: "x://a", StartedAt: at(3 * time.Hour), FinishedAt: at(2 * time.Hour),
		}}
		running := v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
			Name: "app", ContainerID: "x://b", RestartCount: 4, State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at(time.Hour)}}, LastTerminationState: ended,
		}}}
		for range 3 {
			must.Do(t, sink.SetPodStatus(t.Context(), p, running))
			time.Sleep(time.Second)
		}
		again := running.DeepCopy() // an unseen instance has run meanwhile
		c := &again.ContainerStatuses[0]
		c.ContainerID, c.State.Running.StartedAt = "x://d", metav1.Now()
		c.LastTerminationState.Terminated = &v1.ContainerStateTerminated{ContainerID: "x://c", StartedAt: at(-time.Second), FinishedAt: at(-2 * time.Second), Message: secret}
		must.Do(t, sink.SetPodStatus(t.Context(), p, *again))
		a := &observedAgent{t: t, history: h, began: now}
		a.want("web",
			`-10800.0--7200.0 app run "Ran" "exit code 2, signal 15 (Error)" failed`,
			`-3600.0-1.0 app run "Running" ""`,
			`0.0-  phase "Running" ""`,
			`1.0-2.0 app run "Ran" "exit code 0"`,
			`3.0- app run "Running" ""`)
		if got := h.pods()[0]; got.Restarts != 4 || got.Phase != "Running" || got.Finished {
			t.Errorf("%+v, want 4 restarts and phase %q, not finished", got, "Running")
		}
	})
}

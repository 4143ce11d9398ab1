package plancheck

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
)

// yes is a runtime in which the pod's container old runs. It accepts every call.
type yes struct {
	runtimeapi.RuntimeServiceClient
}

func (yes) RunPodSandbox(context.Context, *runtimeapi.RunPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.RunPodSandboxResponse, error) {
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: "s1"}, nil
}

func (yes) CreateContainer(_ context.Context, in *runtimeapi.CreateContainerRequest, _ ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error) {
	return &runtimeapi.CreateContainerResponse{ContainerId: "new-" + in.Config.Metadata.Name}, nil
}

func (yes) StartContainer(context.Context, *runtimeapi.StartContainerRequest, ...grpc.CallOption) (*runtimeapi.StartContainerResponse, error) {
	return &runtimeapi.StartContainerResponse{}, nil
}

func (yes) StopContainer(context.Context, *runtimeapi.StopContainerRequest, ...grpc.CallOption) (*runtimeapi.StopContainerResponse, error) {
	return &runtimeapi.StopContainerResponse{}, nil
}

func (yes) RemoveContainer(context.Context, *runtimeapi.RemoveContainerRequest, ...grpc.CallOption) (*runtimeapi.RemoveContainerResponse, error) {
	return &runtimeapi.RemoveContainerResponse{}, nil
}

func (yes) StopPodSandbox(context.Context, *runtimeapi.StopPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.StopPodSandboxResponse, error) {
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

func (yes) UpdateContainerResources(context.Context, *runtimeapi.UpdateContainerResourcesRequest, ...grpc.CallOption) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

func (yes) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{{Id: "late", Metadata: &runtimeapi.PodSandboxMetadata{Uid: "u", Attempt: 1}}}}, nil
}

func (yes) ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{
		Id: "old", Metadata: &runtimeapi.ContainerMetadata{Name: "web"}, State: runtimeapi.ContainerState_CONTAINER_RUNNING,
		Labels: map[string]string{runtime.LabelPodUID: "u", runtime.LabelContainerName: "web"},
	}}}, nil
}

// agent does by hand what an agent does.
type agent struct {
	t   *testing.T
	c   *Checker
	cfg nodeagent.Config
	pod *v1.Pod
}

func newAgent(t *testing.T) *agent {
	a := &agent{t: t, c: New(), pod: &v1.Pod{}}
	a.pod.UID = "u"
	a.pod.Spec.Containers = []v1.Container{{Name: "web", Image: "web:1"}, {Name: "worker", Image: "worker:1"}}
	a.cfg.Client = &cri.Client{RuntimeServiceClient: yes{}}
	a.c.Watch(&a.cfg)
	must.Get(a.cfg.Client.ListContainers(t.Context(), nil))(t)
	return a
}

func (a *agent) began(work podworkers.WorkType) {
	a.cfg.Workers.Observer.SyncStarted(podworkers.Work{UID: "u", Type: work})
}

func (a *agent) plans(p actions.Plan) {
	a.began(podworkers.SyncPod)
	a.cfg.Sync.Observer.PlanMade(a.pod, p)
}

func (a *agent) ended(err error) {
	a.cfg.Workers.Observer.SyncEnded(podworkers.Work{UID: "u"}, 0, err)
}

func (a *agent) must(_ any, err error) {
	must.Do(a.t, err)
}

func (a *agent) run() {
	a.must(a.cfg.Client.RunPodSandbox(a.t.Context(), &runtimeapi.RunPodSandboxRequest{
		Config: &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Uid: "u", Attempt: 1}},
	}))
}

func (a *agent) list() {
	a.must(a.cfg.Client.ListPodSandbox(a.t.Context(), nil))
}

func (a *agent) create(sandbox string) {
	a.must(a.cfg.Client.CreateContainer(a.t.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId:  sandbox,
		Config:        &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "web", Attempt: 1}},
		SandboxConfig: &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Uid: "u"}},
	}))
}

func (a *agent) pull(image string, err error) {
	a.cfg.Sync.Observer.ImagePulled(a.pod, actions.ContainerRef{Name: "web"}, image, 0, err)
}

func (a *agent) start(name string) {
	a.must(a.cfg.Client.CreateContainer(a.t.Context(), &runtimeapi.CreateContainerRequest{
		Config:        &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: 1}},
		SandboxConfig: &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Uid: "u"}},
	}))
	a.must(a.cfg.Client.StartContainer(a.t.Context(), &runtimeapi.StartContainerRequest{ContainerId: "new-" + name}))
}

func (a *agent) stop(id string) {
	a.must(a.cfg.Client.StopContainer(a.t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id}))
}

func (a *agent) remove(id string) {
	a.must(a.cfg.Client.RemoveContainer(a.t.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: id}))
}

func (a *agent) resize(id string) {
	a.must(a.cfg.Client.UpdateContainerResources(a.t.Context(), &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id}))
}

func (a *agent) stopSandbox(id string) {
	a.must(a.cfg.Client.StopPodSandbox(a.t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}))
}

// restart replaces container web and starts worker after it.
func restart() actions.Plan {
	web, worker := actions.ContainerRef{Name: "web"}, actions.ContainerRef{Index: 1, Name: "worker"}
	return actions.Plan{
		Kill:  []actions.KillStep{{Container: web, ID: runtime.ContainerID{ID: "old"}, Reason: actions.LivenessFailed, Restart: true}},
		Start: []actions.StartStep{{Container: web, Attempt: 1}, {Container: worker, Attempt: 1}},
	}
}

// again removes container web, which was created and never started, and starts it after worker.
func again() actions.Plan {
	p := restart()
	p.Clear = []actions.ClearStep{{Container: p.Kill[0].Container, ID: p.Kill[0].ID, Reason: actions.ContainerNeverStarted}}
	p.Kill = nil
	slices.Reverse(p.Start)
	return p
}

// begin makes all anew in a new sandbox.
func begin() actions.Plan {
	p := restart()
	p.KillPod, p.Kill, p.Sandbox.Create, p.Sandbox.Attempt = true, nil, true, 1
	return p
}

// reset removes container web last of all, and makes all anew in a new sandbox.
func reset() actions.Plan {
	p := begin()
	p.Reset = []actions.ResetStep{{Container: p.Start[0].Container, ID: runtime.ContainerID{ID: "old"}, Last: true}}
	return p
}

func TestC12_Checker(t *testing.T) {
	held := actions.Hold{Reason: actions.CrashBackOff}
	for name, tc := range map[string]struct {
		does func(*agent)
		want string // the beginning of the reported error, empty if there is none
	}{
		"as planned": {func(a *agent) {
			a.plans(restart())
			a.stop("old")
			a.start("web")
			a.start("worker")
			a.ended(nil)
			a.remove("old") // as housekeeping does
		}, ""},
		"as planned in a new sandbox, and the handler fails": {func(a *agent) {
			a.plans(begin())
			a.stop("old")
			a.run()
			a.start("web")
			a.stop("new-web")
			a.start("worker")
			a.ended(nil)
			a.stopSandbox("s0")
		}, ""},
		"an extra start": {func(a *agent) {
			a.plans(restart())
			a.stop("old")
			a.start("web")
			a.start("debug")
		}, "CreateContainer debug is not in the plan"},
		"an extra stop":    {func(a *agent) { a.plans(actions.Plan{Start: restart().Start}); a.stop("old") }, "StopContainer web is not in the plan"},
		"an extra removal": {func(a *agent) { a.plans(actions.Plan{Start: restart().Start}); a.remove("old") }, "RemoveContainer web is not in the plan"},
		"an extra sandbox": {func(a *agent) { a.plans(restart()); a.stop("old"); a.run() }, "RunPodSandbox is not in the plan"},
		"an extra resize":  {func(a *agent) { a.plans(restart()); a.stop("old"); a.resize("old") }, "UpdateContainerResources web is not in the plan"},
		"its sandbox":      {func(a *agent) { a.plans(begin()); a.run(); a.plans(restart()); a.stopSandbox("s1") }, "StopPodSandbox is not in the plan"},
		"a sandbox that another has replaced": {func(a *agent) {
			a.plans(begin())
			a.run()
			a.create("s2")
			a.plans(restart())
			a.stopSandbox("s1")
		}, ""},
		"a sandbox that its plan has stopped": {func(a *agent) {
			a.plans(begin())
			a.run()
			a.plans(begin())
			a.stopSandbox("s1")
			a.ended(errors.New("no new one was made"))
			a.stopSandbox("s1")
		}, ""},
		"a sandbox between two works": {func(a *agent) {
			a.plans(begin())
			a.run()
			a.ended(errors.New("failed"))
			a.stopSandbox("s1")
		}, "StopPodSandbox belongs to no plan"},
		"a sandbox that an earlier call makes late": {func(a *agent) {
			a.plans(begin())
			a.stop("old")
			a.list()
			a.start("web")
			a.start("worker")
			a.ended(nil)
		}, ""},
		"a late sandbox of an earlier attempt": {func(a *agent) {
			p := begin()
			p.Sandbox.Attempt = 2
			a.plans(p)
			a.stop("old")
			a.list()
			a.start("web")
		}, "CreateContainer web comes too early"},
		"a sandbox that a failed call has made": {func(a *agent) {
			a.plans(begin())
			a.run()
			a.create("s2")
			a.plans(restart())
			a.stopSandbox("s2")
		}, "StopPodSandbox is not in the plan"},
		"a start that waits for its image": {func(a *agent) {
			a.pull("web:1", errors.New("failed"))
			a.pull("web:2", nil)
			a.plans(restart())
			a.stop("old")
			a.start("worker")
			a.ended(nil)
		}, ""},
		"a start whose image has been pulled": {func(a *agent) {
			a.pull("web:1", errors.New("failed"))
			a.pull("web:1", nil)
			a.plans(restart())
			a.stop("old")
			a.ended(nil)
		}, "the work has ended without an error, but not carried out: the start"},
		"no plan":               {func(a *agent) { a.began(podworkers.SyncPod); a.stop("old") }, "StopContainer web belongs to no plan"},
		"a plan that has ended": {func(a *agent) { a.plans(restart()); a.ended(errors.New("failed")); a.start("web") }, "CreateContainer web belongs to no plan"},
		"a pod that ends":       {func(a *agent) { a.began(podworkers.SyncTerminatingPod); a.stop("old"); a.ended(nil) }, ""},
		"a start of a pod that ends": {func(a *agent) {
			a.began(podworkers.SyncTerminatingPod)
			a.start("web")
		}, "CreateContainer web belongs to no plan"},
		"a start before the stop": {func(a *agent) { a.plans(restart()); a.start("web") }, "CreateContainer web comes too early"},
		"a stop after a start": {func(a *agent) {
			a.plans(restart())
			a.stop("old")
			a.start("web")
			a.stop("old")
		}, "StopContainer web comes too late"},
		"a removal whose stop took long": {func(a *agent) {
			a.plans(again())
			a.stop("old")
			a.start("worker")
			a.remove("old")
			a.start("web")
			a.ended(nil)
		}, ""},
		"a removal after the start of its container": {func(a *agent) {
			a.plans(again())
			a.stop("old")
			a.start("worker")
			a.start("web")
			a.remove("old")
		}, "RemoveContainer web comes too late"},
		"the wrong order": {func(a *agent) {
			a.plans(restart())
			a.stop("old")
			a.start("worker")
			a.start("web")
		}, "CreateContainer web comes after"},
		"a new sandbox before the last of a reset": {func(a *agent) {
			a.plans(reset())
			a.run()
		}, ""},
		"a removal of an instance that was not listed": {func(a *agent) {
			p := reset()
			p.Reset[0].ID.ID, p.Start = "recorded", nil
			a.plans(p)
			a.remove("recorded")
			a.run()
			a.ended(nil)
		}, ""},
		"a start before the last of a reset": {func(a *agent) {
			a.plans(reset())
			a.run()
			a.start("web")
		}, "CreateContainer web comes too early"},
		"a start before the sandbox": {func(a *agent) { a.plans(begin()); a.start("web") }, "CreateContainer web comes too early"},
		"a start that has to wait": {func(a *agent) {
			p := restart()
			p.Start[0].Hold = held
			a.plans(p)
			a.stop("old")
			a.start("web")
		}, "CreateContainer web has to wait"},
		"a start that waits": {func(a *agent) {
			p := restart()
			p.Start[0].Hold = held
			a.plans(p)
			a.stop("old")
			a.start("worker")
			a.ended(nil)
		}, ""},
		"a dropped stop":         {func(a *agent) { a.plans(restart()); a.ended(nil) }, "the work has ended without an error, but not carried out: the stop"},
		"a dropped start":        {func(a *agent) { a.plans(restart()); a.stop("old"); a.start("web"); a.ended(nil) }, "the work has ended without an error, but not carried out: the start"},
		"a dropped sandbox":      {func(a *agent) { a.plans(begin()); a.ended(nil) }, "the work has ended without an error, but not carried out: the sandbox"},
		"a stop that has failed": {func(a *agent) { a.plans(restart()); a.stop("old"); a.ended(errors.New("failed")) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t)
			tc.does(a)
			judged, broken := a.c.Verdict()
			_, what, _ := strings.Cut(strings.Join(broken, "\n"), ".")
			_, what, _ = strings.Cut(what, ": ")
			if judged == 0 || !strings.HasPrefix(what, tc.want) || (what == "") != (tc.want == "") {
				t.Errorf("judged %d, broken %q, want %q", judged, broken, tc.want)
			}
		})
	}
}
